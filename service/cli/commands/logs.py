"""`muster logs`."""

from __future__ import annotations

import sys

import rich_click as click

from service.cli.references import find_group_id
from service.cli.session import Session, pass_session


@click.command()
@click.argument("group")
@click.option("--member", "-m", type=click.IntRange(0), default=0, show_default=True, help="Which member.")
@click.option("--follow", "-f", is_flag=True, help="Go on until the group has ended.")
@click.option("--tail", "-n", type=click.IntRange(0, 10_000), help="Only the last so many lines.")
@click.option("--attempt", type=click.IntRange(1), help="Of an earlier attempt.")
@click.option("--generation", type=click.IntRange(1), help="Of an earlier generation.")
@pass_session
def logs(
    session: Session,
    *,
    group: str,
    member: int,
    follow: bool,
    tail: int | None,
    attempt: int | None,
    generation: int | None,
) -> None:
    """Print what a member of GROUP wrote, as it wrote it.

    Without --attempt and --generation: of the newest. With --follow also what later ones write.
    """
    with session.client() as client:
        parts = client.members(find_group_id(client, group)).logs(
            member, tail=tail, attempt=attempt, generation=generation, is_followed=follow
        )
        for part in parts:
            sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()
