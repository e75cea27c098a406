"""The command line: global options, the list of commands, and errors as messages and exit codes."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import rich_click as click

import service
from service.cli import exits
from service.cli.lazy import LazyGroup
from service.cli.pipes import flush, silence, write_line
from service.cli.session import Session
from service.client.errors import AddressWrong, ApiError, ClientError, FileWrong, Unreachable, Unsendable

_COMMANDS = "service.cli.commands"

COMMANDS = {
    "submit": f"{_COMMANDS}.submit:submit",
    "run": f"{_COMMANDS}.run:run",
    "list": f"{_COMMANDS}.list:list_groups",
    "show": f"{_COMMANDS}.show:show",
    "why": f"{_COMMANDS}.why:why",
    "logs": f"{_COMMANDS}.logs:logs",
    "cancel": f"{_COMMANDS}.cancel:cancel",
    "hold": f"{_COMMANDS}.hold:hold",
    "release": f"{_COMMANDS}.hold:release",
    "update": f"{_COMMANDS}.update:update",
    "queues": f"{_COMMANDS}.queues:queues",
    "cohorts": f"{_COMMANDS}.cohorts:cohorts",
    "priorities": f"{_COMMANDS}.priorities:priorities",
    "apply": f"{_COMMANDS}.policy:apply",
    "export": f"{_COMMANDS}.policy:export",
    "nodes": f"{_COMMANDS}.nodes:nodes",
    "keys": f"{_COMMANDS}.keys:keys",
    "usage": f"{_COMMANDS}.usage:usage",
    "inventory": f"{_COMMANDS}.inventory:inventory",
    "receipts": f"{_COMMANDS}.receipts:receipts",
    "audit": f"{_COMMANDS}.audit:audit",
    "simulate": f"{_COMMANDS}.simulate:simulate",
    "up": f"{_COMMANDS}.up:up",
    "down": f"{_COMMANDS}.down:down",
    "backup": f"{_COMMANDS}.backup:backup",
    "restore": f"{_COMMANDS}.backup:restore",
    "api": f"{_COMMANDS}.processes:api",
    "worker": f"{_COMMANDS}.processes:worker",
    "dispatcher": f"{_COMMANDS}.processes:dispatcher",
    "ticker": f"{_COMMANDS}.processes:ticker",
    "migrate": f"{_COMMANDS}.processes:migrate",
    "health": f"{_COMMANDS}.health:health",
    "version": f"{_COMMANDS}.version:version",
    "completion": f"{_COMMANDS}.completion:completion",
}

click.rich_click.COMMAND_GROUPS = {
    "muster": [
        {
            "name": "Groups",
            "commands": [
                *("submit", "run", "list", "show", "why", "logs"),
                *("cancel", "hold", "release", "update"),
            ],
        },
        {
            "name": "Policy",
            "commands": ["queues", "cohorts", "priorities", "usage", "apply", "export", "simulate"],
        },
        {"name": "Nodes and keys", "commands": ["nodes", "inventory", "receipts", "audit", "keys"]},
        {
            "name": "This machine",
            "commands": ["up", "down", "backup", "restore", "version", "completion"],
        },
        {
            "name": "Single processes",
            "commands": ["api", "worker", "dispatcher", "ticker", "migrate", "health"],
        },
    ]
}
click.rich_click.MAX_WIDTH = 100
click.rich_click.STYLE_COMMANDS_TABLE_COLUMN_WIDTH_RATIO = (1, 6)

_EPILOG = "Exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in exits.MEANINGS.items()) + "."


@click.group(
    cls=LazyGroup, lazy=COMMANDS, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option("--url", metavar="URL", help="The server; else MUSTER_URL, else the one of the data folder.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="The data folder of `muster up`; else MUSTER_DATA, else the user's own.",
)
@click.option("--json", "is_json", is_flag=True, help="Print JSON, for programs.")
@click.option(
    "--no-color",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=lambda ctx, _, value: _drop_color(ctx) if value else None,
    help="Print without colours; so does NO_COLOR.",
)
@click.version_option(service.__version__, prog_name="muster", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context, url: str | None, data: Path | None, is_json: bool) -> None:
    """Admit GPU jobs by the whole group.

    A group gets every member that it needs, or holds nothing and is told why. GROUP is an id, its first
    or last eight characters or more, or a name. The key is MUSTER_API_KEY, else, for the stack of the data
    folder, the admin's key that lies there.
    """
    session = ctx.ensure_object(Session)
    session.url, session.data, session.is_json = url, data, is_json


def _drop_color(ctx: click.Context) -> None:
    """From here on, also of help and of what the framework says is wrong with the command line."""
    ctx.ensure_object(Session).has_color = False
    if isinstance(ctx, click.RichContext):
        ctx.help_config = replace(ctx.help_config, color_system=None)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `muster` and exit with one of the codes of `exits`."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; errors are printed."""
    session = Session(environ=os.environ)
    try:
        result = cli.main(list(arguments), prog_name="muster", standalone_mode=False, obj=session)
        flush(sys.stdout)
    except click.ClickException as error:
        _show(error)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return exits.INTERRUPTED
    except SystemExit as left:
        # The framework leaves with 1 when nobody reads what only prints, such as help.
        if not isinstance(left.__context__, BrokenPipeError):
            raise
        silence(sys.stdout)
        return exits.OK
    except ClientError as error:
        return _report(error, session)
    except Exception as error:  # noqa: BLE001 - 1 would say that a group failed
        traceback.print_exc()
        _complain(f"{type(error).__name__}: {error}", session)
        return exits.BROKEN
    return result if isinstance(result, int) else exits.OK


def _report(error: ClientError, session: Session) -> int:
    if isinstance(error, Unreachable):
        _complain(f"{error}.\nStart one with `muster up`, or name it with --url or MUSTER_URL.", session)
        return exits.NO_SERVER
    if isinstance(error, ApiError):
        _report_answer(error, session)
        return exits.of_status(error.status)
    _complain(str(error), session)
    return exits.USAGE if isinstance(error, AddressWrong | FileWrong | Unsendable) else exits.BROKEN


def _report_answer(error: ApiError, session: Session) -> None:
    said, wrong = str(error), error.errors
    if wrong and wrong[0].message == said and wrong[0].field not in said:
        # The sentence does not name its field.
        said, wrong = f"{wrong[0].field}: {said}", wrong[1:]
    _complain(said, session)
    if error.status == 401:
        write_line(sys.stderr, _where_keys_come_from(session))
    for each in wrong:
        # A batch has many fields of one name, so the sentence alone does not say which.
        if each.message not in said or each.field not in said:
            write_line(sys.stderr, f"  {each.field}: {each.message}")


def _where_keys_come_from(session: Session) -> str:
    address = session.address()
    if address.key is not None:
        return "Set MUSTER_API_KEY to a key of this server."
    folder = session.data_folder()
    return (
        "No key was sent: MUSTER_API_KEY is not set, and the data folder"
        f" {folder} (--data) is not that of a stack of yours at {address.url}."
    )


def _show(error: click.ClickException) -> None:
    try:
        error.show()
    except BrokenPipeError:
        silence(sys.stderr)


def _complain(text: str, session: Session) -> None:
    title = click.style("Error:", fg="red", bold=True) if session.is_colored else "Error:"
    try:
        click.echo(f"{title} {text}", err=True)
    except BrokenPipeError:
        silence(sys.stderr)
