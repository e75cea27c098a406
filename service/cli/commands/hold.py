"""`muster hold` and `muster release`."""

from __future__ import annotations

import rich_click as click

from service.cli.acting import act_on_groups
from service.cli.completing import complete_live_groups
from service.cli.references import find_group_id
from service.cli.session import Session, pass_session, print_options


@click.command()
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_live_groups)
@print_options
@pass_session
def hold(session: Session, *, groups: tuple[str, ...]) -> int:
    """Admit nothing of these groups until they are released.

    What runs of them goes on. A held group stops nobody behind it.
    """
    with session.client() as client:
        return act_on_groups(session.out, groups, lambda text: client.hold(find_group_id(client, text)))


@click.command()
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_live_groups)
@print_options
@pass_session
def release(session: Session, *, groups: tuple[str, ...]) -> int:
    """Let held groups be admitted again, at their old place."""
    with session.client() as client:
        return act_on_groups(session.out, groups, lambda text: client.release(find_group_id(client, text)))
