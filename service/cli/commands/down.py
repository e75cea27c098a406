"""`muster down`: stop the stack of this machine from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from service.cli import exits
from service.cli.session import Session, pass_session

if TYPE_CHECKING:
    from workers.stack.down import Stopped


@click.command()
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="The data folder.")
@click.option("--stop", "ends_members", is_flag=True, help="End the members too; no group is cancelled.")
@click.option(
    "--grace",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="With --stop: from SIGTERM to SIGKILL.",
)
@pass_session
def down(session: Session, *, data: Path | None, ends_members: bool, grace: float) -> int:
    """Stop the stack of `muster up`, or what a killed one left.

    Members go on, and the next `muster up` adopts them. With --stop they are ended too. That cancels
    nothing: the next `muster up` lets their groups recover, each by its policy, so most start again.
    `muster cancel`, before, ends a group for good.
    """
    from workers.stack import StackFailed, StackOptions
    from workers.stack.down import stop_stack

    if data is not None:
        session.data = data
    options = StackOptions(data=session.data_folder(), environ=dict(session.environ))
    try:
        stopped = stop_stack(options, member_grace_seconds=grace if ends_members else None)
    except StackFailed as error:
        click.echo(f"Error: {error}", err=True)
        return exits.REFUSED
    session.out.line(_describe(stopped, options.data))
    if ends_members:
        session.out.line(_describe_ended(stopped.members))
    if stopped.survivors:
        click.echo(f"Error: {stopped.survivors} of them survive SIGKILL", err=True)
        return exits.BROKEN
    return exits.OK


def _describe_ended(members: int) -> str:
    if not members:
        return "No member was running."
    counted = "1 member. Its group recovers" if members == 1 else f"{members} members. Their groups recover"
    return f"Ended {counted} under the next `muster up`."


def _describe(stopped: Stopped, data: Path) -> str:
    from workers.stack.down import Found

    return {
        Found.RUNNING: f"Stopped Muster on {data} (pid {stopped.pid}).",
        Found.LEFTOVERS: f"Ended what a killed Muster left running on {data}.",
        Found.NOTHING: f"Muster is not running on {data}.",
    }[stopped.found]
