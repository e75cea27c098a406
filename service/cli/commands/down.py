"""`muster down`: stop the stack of this machine from elsewhere."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from service.cli import exits
from service.cli.session import Session, pass_session


@click.command()
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="The data folder.")
@click.option("--stop", "ends_members", is_flag=True, help="End the members too.")
@pass_session
def down(session: Session, *, data: Path | None, ends_members: bool) -> int:
    """Stop the stack of `muster up`, or what a killed one left.

    Members go on, and the next `muster up` adopts them. With --stop they are ended: SIGTERM, and SIGKILL
    after the grace. Their groups are not cancelled; the next `muster up` starts them again.
    """
    from workers.stack import AlreadyRunning, StackOptions
    from workers.stack.down import Found, stop_stack

    if data is not None:
        session.data = data
    options = StackOptions(data=session.data_folder(), environ=dict(session.environ))
    try:
        stopped = stop_stack(options)
    except AlreadyRunning as error:
        click.echo(f"Error: {error}", err=True)
        return exits.REFUSED
    session.out.line(
        {
            Found.RUNNING: f"Stopped Muster on {options.data} (pid {stopped.pid}).",
            Found.LEFTOVERS: f"Ended what a killed Muster left running on {options.data}.",
            Found.NOTHING: f"Muster is not running on {options.data}.",
        }[stopped.found]
    )
    return exits.OK
