"""`muster up`: the whole stack in the foreground."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from service.cli import exits
from service.cli.livelog import short_line
from service.cli.printer import Printer
from service.cli.session import Session, pass_session
from service.cli.spans import number
from service.cli.stopping import stop_on_signals

if TYPE_CHECKING:
    from service.client.nodes import Node
    from workers.stack import Stack


@click.command()
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="The data folder.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8420, show_default=True, help="0 takes a free one."
)
@click.option(
    "--nodes", default="", metavar="NODES", help="Declared nodes, such as 1x8xH100-80GB; else this machine."
)
@click.option(
    "--launcher",
    type=click.Choice(["local", "simulated"]),
    default="local",
    show_default=True,
    help="Real processes, or members that only live on a clock.",
)
@click.option("--pool", default="local", show_default=True, help="The name of the pool.")
@click.option(
    "--levels",
    default="host",
    show_default=True,
    help="Its topology levels, outermost first: block,rack,host.",
)
@click.option("--quiet", "-q", is_flag=True, help="Do not show the log.")
@pass_session
def up(
    session: Session,
    *,
    data: Path | None,
    port: int,
    nodes: str,
    launcher: str,
    pool: str,
    levels: str,
    quiet: bool,
) -> int:
    """Run the whole stack on this machine until Ctrl-C.

    PostgreSQL, Valkey, API, worker, dispatcher and ticker, with everything that lasts in the data folder.
    Only the API takes a TCP port, on 127.0.0.1. A process that dies is started again. Stopping leaves
    members running; the next `muster up` on the same folder adopts them.
    """
    from workers.stack import (
        AlreadyRunning,
        NodesWrong,
        PortTaken,
        SettingsWrong,
        Stack,
        StackFailed,
        StackOptions,
    )

    if data is not None:
        session.data = data
    options = StackOptions(
        data=session.data_folder(),
        port=port,
        nodes=nodes,
        launcher=launcher,
        pool=pool,
        levels=levels,
        environ=dict(session.environ),
    )
    stop_on_signals()
    try:
        _serve(Stack(options), session.out, is_quiet=quiet)
    except (AlreadyRunning, PortTaken) as error:
        click.echo(f"Error: {error}", err=True)
        return exits.REFUSED
    except (NodesWrong, SettingsWrong) as error:
        raise click.UsageError(str(error)) from None
    except StackFailed as error:
        click.echo(f"Error: {error}", err=True)
        return exits.BROKEN
    return exits.OK


def _serve(stack: Stack, out: Printer, *, is_quiet: bool) -> None:
    """Run until a signal comes. That is the ordinary end, not an error."""
    from workers.stack.follow import LogFollower

    out.line(f"Starting Muster on {stack.options.data} ...")
    follower = LogFollower(stack.options.logs, lambda name, line: _show(out, name, line))
    if not is_quiet:
        follower.start()
    try:
        stack.start()
        stack.wait_ready()
        _greet(stack, out)
        while True:
            signal.pause()
    except KeyboardInterrupt:
        out.line("Stopping ...")
    finally:
        stack.stop()
        follower.stop()
    _say_goodbye(out)


def _show(out: Printer, name: str, line: str) -> None:
    if shown := short_line(name, line):
        out.line(*shown)


def _greet(stack: Stack, out: Printer) -> None:
    """Where it is, what it has, how to use it and how to stop it."""
    with stack.client() as client:
        nodes = client.nodes.list()
    out.line(f"Muster is up at {stack.url}", "bold green")
    for label, text in (
        ("nodes", describe_nodes(nodes)),
        ("data", str(stack.options.data)),
        ("submit", "muster run --members 2 -- echo hello    (or: muster submit FILE)"),
        ("look", "muster list, muster why GROUP, muster logs GROUP"),
        ("stop", "Ctrl-C here, or muster down; members go on, `muster down --stop` ends them too"),
    ):
        out.line(f"  {label:<8} {text}")
    if not any(node.gpus for node in nodes):
        out.line("  hint     no GPU is seen here; `muster up --nodes 1x8xH100-80GB` declares some")


def describe_nodes(nodes: Sequence[Node]) -> str:
    """How many nodes there are and what they have in all."""
    gpus = Counter(gpu.model for node in nodes for gpu in node.gpus)
    amounts = [f"{count} × {model}" for model, count in sorted(gpus.items())]
    amounts.append(f"{number(sum(node.cpus for node in nodes))} CPUs")
    amounts.append(f"{number(sum(node.memory_gib for node in nodes))} GiB")
    simulated = ", simulated" if any(node.is_simulated for node in nodes) else ""
    return f"{len(nodes)} node{'' if len(nodes) == 1 else 's'} with {', '.join(amounts)}{simulated}"


def _say_goodbye(out: Printer) -> None:
    out.line(
        "Stopped. Members go on unless `muster down --stop` ends them; the next `muster up` adopts them."
    )
