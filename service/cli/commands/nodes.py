"""`muster nodes`: machines and their GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import rich_click as click

from service.cli.completing import complete_nodes
from service.cli.printer import Cell, Column
from service.cli.session import Session, pass_session, print_options
from service.cli.spans import clock_time, number
from service.clock import SystemClock

if TYPE_CHECKING:
    from datetime import datetime

    from service.client.nodes import Node

_COLUMNS = (
    Column("node"),
    Column("pool"),
    Column("state", is_whole=False),
    Column("gpus"),
    Column("held", align="right"),
    Column("free", align="right"),
    Column("cpus", align="right"),
    Column("gib", align="right"),
)


@click.group(invoke_without_command=True)
@print_options
@click.pass_context
def nodes(ctx: click.Context) -> None:
    """List nodes; cordon, drain and uncordon them."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_nodes)


@nodes.command(name="list")
@click.option("--pool", help="Only of this pool.")
@click.option("--model", help="Only with this GPU model.")
@print_options
@pass_session
def list_nodes(session: Session, *, pool: str | None = None, model: str | None = None) -> None:
    """List nodes with what is held and free on them."""
    with session.client() as client:
        found = client.nodes.list(pool=pool, model=model)
    if session.is_json:
        session.out.json({"nodes": found})
        return
    _show(session, found)
    session.out.note("" if found else "There are no nodes; a dispatcher shows them (`muster up`).")


@nodes.command()
@click.argument("node", shell_complete=complete_nodes)
@print_options
@pass_session
def cordon(session: Session, *, node: str) -> None:
    """Place nothing more on NODE (operator). What runs there goes on."""
    with session.client() as client:
        _show(session, [client.nodes.cordon(node)])


@nodes.command()
@click.argument("node", shell_complete=complete_nodes)
@print_options
@pass_session
def uncordon(session: Session, *, node: str) -> None:
    """End the cordon and the drain of NODE (operator)."""
    with session.client() as client:
        _show(session, [client.nodes.uncordon(node)])


@nodes.command()
@click.argument("node", shell_complete=complete_nodes)
@click.option("--deadline", metavar="TIME", help="Evict and requeue what is left after so long; else never.")
@print_options
@pass_session
def drain(session: Session, *, node: str, deadline: str | None) -> None:
    """Cordon NODE and, after the deadline, evict and requeue what has a member there (operator)."""
    with session.client() as client:
        _show(session, [client.nodes.drain(node, deadline=deadline)])


def _show(session: Session, found: Sequence[Node]) -> None:
    if session.is_json:
        session.out.json(found[0])
        return
    now = SystemClock().now()
    session.out.table(_COLUMNS, [_cells(node, now) for node in found])


def _cells(node: Node, now: datetime) -> list[Cell]:
    return [
        node.name,
        f"{node.pool} (simulated)" if node.is_simulated else node.pool,
        state_cell(node, now),
        _models(node),
        str(node.gpus_held),
        str(sum(not gpu.is_held and not gpu.is_lost and gpu.is_healthy for gpu in node.gpus)),
        number(node.cpus),
        number(node.memory_gib),
    ]


def _models(node: Node) -> str:
    models = Counter(gpu.model for gpu in node.gpus)
    return ", ".join(f"{count} × {model}" for model, count in sorted(models.items())) or "-"


def state_cell(node: Node, now: datetime) -> Cell:
    """Everything about the node that needs a look, else `ready`."""
    notes: list[str] = []
    if not node.is_ready:
        notes.append("down")
    if not node.is_reachable:
        notes.append("launcher unreachable")
    if node.drain_at is not None:
        notes.append(f"drains at {clock_time(node.drain_at, today=now)}")
    elif node.is_cordoned:
        notes.append("cordoned")
    if lost := sum(gpu.is_lost for gpu in node.gpus):
        notes.append(f"{lost} lost")
    if unhealthy := sum(not gpu.is_healthy for gpu in node.gpus):
        notes.append(f"{unhealthy} unhealthy")
    if not notes:
        return "ready", "green"
    return ", ".join(notes), "red" if not node.is_ready or not node.is_reachable else "yellow"
