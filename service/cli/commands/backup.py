"""`muster backup` and `muster restore`: the database of the stack of this machine, to a file and back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from service.cli import exits
from service.cli.session import Session, pass_session

if TYPE_CHECKING:
    from workers.stack import StackOptions

_FILE = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
_DATA = click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="The data folder.")


@click.command()
@_FILE
@_DATA
@pass_session
def backup(session: Session, *, file: Path, data: Path | None) -> int:
    """Write the database of the stack of `muster up` to FILE, all of one instant.

    The stack may run meanwhile. Keep `secret.key` and `admin.key` of the data folder with it: they are
    not in the file.
    """
    from workers.stack.backup import write_backup

    return _do(session, write_backup, file=file, data=data, done="Wrote {file}.")


@click.command()
@_FILE
@_DATA
@pass_session
def restore(session: Session, *, file: Path, data: Path | None) -> int:
    """Let the stack of this machine begin again from FILE, which `muster backup` wrote.

    The stack must not run. What happened after the backup is forgotten: of the members that run, the next
    `muster up` adopts those that the backup knows as they are, and ends the others.
    """
    from workers.stack.backup import restore_backup

    done = "Restored {file}. Start with `muster up`."
    return _do(session, restore_backup, file=file, data=data, done=done)


def _do(
    session: Session,
    act: Callable[[StackOptions, Path], None],
    *,
    file: Path,
    data: Path | None,
    done: str,
) -> int:
    from workers.stack import StackFailed, StackOptions

    if data is not None:
        session.data = data
    options = StackOptions(data=session.data_folder(), environ=dict(session.environ))
    try:
        act(options, file.absolute())
    except StackFailed as error:
        click.echo(f"Error: {error}", err=True)
        return exits.REFUSED
    session.out.line(done.format(file=file))
    return exits.OK
