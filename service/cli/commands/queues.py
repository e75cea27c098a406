"""`muster queues`: where groups wait."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import rich_click as click

from service.cli.completing import complete_queues
from service.cli.printer import Cell, Column
from service.cli.session import Session, pass_session, print_options
from service.cli.spans import number
from service.domain.queue import Order, Stop

if TYPE_CHECKING:
    from service.client.queues import Queue

_COLUMNS = (
    Column("queue", is_cut=True),
    Column("order"),
    Column("stop"),
    Column("waits", align="right"),
    Column("resource"),
    Column("used", align="right"),
    Column("asked", align="right"),
    Column("quota", align="right"),
    Column("limit", align="right"),
    Column("tenant", is_cut=True),
)
#: Resources that are not flavors, and GPUs for which a group names no model.
_NAMES = {"cpus": "CPUs", "memory_gib": "GiB", "*": "GPUs of any model"}
_SHORT = _NAMES | {"*": "any GPU"}


def _changes(command: Any) -> Any:
    """Options that say what a queue is."""
    for option in reversed(
        (
            click.option(
                "--order",
                type=click.Choice([each.value for each in Order]),
                help="strict stops at a blocked head.",
            ),
            click.option(
                "--stop",
                type=click.Choice([each.value for each in Stop]),
                help="Admit nothing; drain also evicts.",
            ),
            click.option("--tenant", help="Who may submit; empty for everybody."),
            click.option(
                "--quota",
                multiple=True,
                metavar="NAME=AMOUNT",
                help="Nominal quota: H100-80GB=8, cpus=64, memory_gib=512. `none`: no quota at all.",
            ),
            click.option(
                "--limit",
                multiple=True,
                metavar="NAME=AMOUNT",
                help="The most that it may hold; `none`: no limit.",
            ),
        )
    ):
        command = option(command)
    return command


@click.group(invoke_without_command=True)
@print_options
@click.pass_context
def queues(ctx: click.Context) -> None:
    """List, make and change queues."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_queues)


@queues.command(name="list")
@print_options
@pass_session
def list_queues(session: Session) -> None:
    """List queues with what they hold and what is asked of them."""
    with session.client() as client:
        found = client.queues.list()
    if session.is_json:
        session.out.json({"queues": found})
    else:
        _show(session, found)


@queues.command()
@click.argument("name")
@_changes
@print_options
@pass_session
def create(session: Session, /, *, name: str, **changes: Any) -> None:
    """Make a queue (admin). Without --quota it has none, and may use everything."""
    with session.client() as client:
        _show(session, [client.queues.create(name, fields_of(changes))])


@queues.command()
@click.argument("name", shell_complete=complete_queues)
@_changes
@print_options
@pass_session
def update(session: Session, /, *, name: str, **changes: Any) -> None:
    """Change a queue (admin). --quota and --limit replace all that was set before.

    Lowering a quota evicts nobody.
    """
    fields = fields_of(changes)
    if not fields:
        raise click.UsageError("say what to change")
    with session.client() as client:
        _show(session, [client.queues.update(name, fields)])


@queues.command()
@click.argument("name", shell_complete=complete_queues)
@print_options
@pass_session
def delete(session: Session, *, name: str) -> None:
    """Delete a queue (admin) in which nothing waits or runs."""
    with session.client() as client:
        queue = client.queues.delete(name)
    if session.is_json:
        session.out.json(queue)
    else:
        session.out.line(f"Deleted the queue {queue.name}.")


def fields_of(changes: dict[str, Any]) -> dict[str, Any]:
    """What was said, as the API names it."""
    fields = {name: changes[name] for name in ("order", "stop") if changes[name] is not None}
    if changes["tenant"] is not None:
        fields["tenant"] = changes["tenant"] or None
    for option, field in (("quota", "nominal_quota"), ("limit", "limit")):
        if changes[option]:
            fields[field] = _amounts(changes[option], option)
    return fields


def _amounts(texts: Sequence[str], option: str) -> dict[str, float] | None:
    if list(texts) == ["none"]:
        return None
    amounts: dict[str, float] = {}
    for text in texts:
        name, _, amount = text.rpartition("=")
        try:
            amounts[name] = float(amount)
        except ValueError:
            amounts[name] = -1
        if not name or not amounts[name] >= 0:
            raise click.BadParameter(f"{text!r} is not NAME=AMOUNT", param_hint=f"--{option}")
    return amounts


def _show(session: Session, found: Sequence[Queue]) -> None:
    if session.is_json:
        session.out.json(found[0])
        return
    if session.out.is_terminal:
        rows = [row for queue in found for row in _rows(queue)]
        # Most queues are open, and for everybody: a column that says no more takes no room.
        told = [number for number, _ in enumerate(_COLUMNS) if any(row[number] for row in rows)]
        session.out.table(
            [_COLUMNS[number] for number in told], [[row[number] for number in told] for row in rows]
        )
    else:
        session.out.table((), [_fields(queue) for queue in found])


def _rows(queue: Queue) -> list[list[Cell]]:
    """One row for each resource; what is true of the whole queue is said in the first."""
    stop: Cell = "" if queue.stop == Stop.NONE else (queue.stop, "yellow")
    rows: list[list[Cell]] = []
    for name in _sorted({*queue.used, *queue.demanded, *(queue.nominal_quota or {}), *queue.limit}):
        amounts = [_amount(each, name) for each in (queue.used, queue.demanded)]
        bounds = [_bound(each, name) for each in (queue.nominal_quota, queue.limit)]
        rows.append(["", "", "", "", _SHORT.get(name, name), *amounts, *bounds, ""])
    rows = rows or [["", "", "", "", "-", "-", "-", _bound(queue.nominal_quota, ""), "-", ""]]
    rows[0][:4] = [queue.name, queue.order, stop, str(queue.waiting)]
    rows[0][-1] = queue.tenant or ""
    return rows


def _amount(amounts: dict[str, float], name: str) -> str:
    return number(amounts[name]) if amounts.get(name) else "-"


def _bound(amounts: dict[str, float] | None, name: str) -> str:
    """A quota or limit of 0 is one."""
    if amounts is None:
        return "none"
    return number(amounts[name]) if name in amounts else "-"


def _fields(queue: Queue) -> list[Cell]:
    return [
        queue.name,
        queue.order,
        queue.stop,
        str(queue.waiting),
        _list(queue.used),
        _list(queue.demanded),
        "none" if queue.nominal_quota is None else _list(queue.nominal_quota),
        _list(queue.limit),
        queue.tenant or "all",
    ]


def _list(amounts: dict[str, float]) -> str:
    """Amounts that are not zero."""
    shown = _sorted(name for name, amount in amounts.items() if amount)
    return ", ".join(f"{number(amounts[name])} {_NAMES.get(name, name)}" for name in shown) or "-"


def _sorted(names: Iterable[str]) -> list[str]:
    """CPUs and memory last."""
    return sorted(names, key=lambda name: (name in _NAMES, name))
