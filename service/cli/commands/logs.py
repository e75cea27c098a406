"""`muster logs`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import rich_click as click

from service.cli.completing import complete_groups
from service.cli.references import find_group_id
from service.cli.session import Session, pass_session

if TYPE_CHECKING:
    from service.client.groups import Group


@click.command()
@click.argument("group", shell_complete=complete_groups)
@click.option("--member", "-m", type=click.IntRange(0), help="Which member; else 0.")
@click.option("--follow", "-f", is_flag=True, help="Go on until the group has ended.")
@click.option("--tail", "-n", type=click.IntRange(0, 10_000), help="Only the last so many lines.")
@click.option("--attempt", type=click.IntRange(1), help="Of an earlier attempt.")
@click.option("--generation", type=click.IntRange(1), help="Of an earlier generation.")
@pass_session
def logs(
    session: Session,
    *,
    group: str,
    member: int | None,
    follow: bool,
    tail: int | None,
    attempt: int | None,
    generation: int | None,
) -> None:
    """Print what a member of GROUP wrote, as it wrote it.

    Without --attempt and --generation: of the newest. With --follow also what later ones write.
    """
    with session.client() as client:
        group_id = find_group_id(client, group)
        if member is None:
            session.out.note(_others(client.get(group_id)))
        parts = client.members(group_id).logs(
            member or 0, tail=tail, attempt=attempt, generation=generation, is_followed=follow
        )
        for part in parts:
            sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()


def _others(group: Group) -> str:
    """That there is more to read than member 0."""
    others = group.wanted_members - 1
    if others == 0:
        return ""
    which = "1 shows the other" if others == 1 else f"N shows another one, up to {others}"
    return f"This is member 0 of {group.name}; --member {which}."
