"""`muster cancel`."""

from __future__ import annotations

import rich_click as click

from service.cli.acting import act_on_groups
from service.cli.completing import complete_live_groups
from service.cli.references import find_group_id
from service.cli.session import Session, pass_session, print_options


@click.command()
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_live_groups)
@click.option("--member", "-m", type=click.IntRange(0), help="Only this member of one independent group.")
@print_options
@pass_session
def cancel(session: Session, *, groups: tuple[str, ...], member: int | None) -> int:
    """Cancel groups, or one member of an independent group.

    What waits ends at once; what runs gets SIGTERM, has its grace, and then SIGKILL. Cancelling twice, or
    what has ended, changes nothing.
    """
    with session.client() as client:
        if member is None:
            return act_on_groups(session.out, groups, lambda text: client.cancel(find_group_id(client, text)))
        if len(groups) > 1:
            raise click.UsageError("--member goes with one group")
        client.members(find_group_id(client, groups[0])).cancel(member)
        return act_on_groups(session.out, groups, lambda text: client.get(find_group_id(client, text)))
