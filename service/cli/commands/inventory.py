"""`muster inventory`."""

from __future__ import annotations

from collections.abc import Sequence

import rich_click as click

from service.cli.printer import Cell, Column
from service.cli.session import Session, pass_session, print_options
from service.cli.spans import number
from service.client.inventory import Holder, NodeInventory

_COLUMNS = (
    Column("node"),
    Column("gpus"),
    Column("held by", is_whole=False),
    Column("attempt", align="right"),
    Column("cpus", align="right"),
    Column("gib", align="right"),
)


@click.command()
@print_options
@pass_session
def inventory(session: Session) -> None:
    """Show who holds which GPUs now, and what is free.

    Nobody gets a GPU that is lost: something may sit there that could not be ended, or its node is down.
    """
    with session.client() as client:
        found = client.inventory()
    out = session.out
    if out.is_json:
        out.json(found)
        return
    out.table(_COLUMNS, [row for node in found.nodes for row in _rows(node)])
    out.note(
        f"{found.gpus_total} GPUs: {found.gpus_held} held, {found.gpus_free} free, {found.gpus_lost} lost."
    )


def _rows(node: NodeInventory) -> list[list[Cell]]:
    rows = [_holder(node.name, holder) for holder in node.holders]
    others = node.held_gpus - sum(len(holder.gpus) for holder in node.holders)
    if others > 0:
        rows.append([node.name, f"{others} GPUs", ("other owners", "dim"), "", "", ""])
    if node.lost_gpus:
        rows.append([node.name, ranges(node.lost_gpus), ("lost", "red"), "", "", ""])
    free = node.free
    rows.append(
        [node.name, ranges(node.free_gpus), ("free", "green"), "", number(free.cpus), number(free.memory_gib)]
    )
    return rows


def _holder(node: str, holder: Holder) -> list[Cell]:
    return [
        node,
        ranges(holder.gpus),
        holder.name if holder.index == 0 else f"{holder.name} member {holder.index}",
        str(holder.attempt),
        number(holder.cpus),
        number(holder.memory_gib),
    ]


def ranges(numbers: Sequence[int]) -> str:
    """0, 1, 2, 5 as `0-2,5`; `-` for none."""
    parts: list[list[int]] = []
    for each in sorted(numbers):
        if parts and parts[-1][-1] == each - 1:
            parts[-1].append(each)
        else:
            parts.append([each])
    return ",".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts) or "-"
