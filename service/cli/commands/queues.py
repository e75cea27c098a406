"""`muster queues`: where groups wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import rich_click as click

from service.cli.printer import Column
from service.cli.session import Session, pass_session, print_options
from service.cli.spans import number
from service.domain.queue import Order, Stop

if TYPE_CHECKING:
    from service.client.queues import Queue

_COLUMNS = (
    Column("queue"),
    Column("order"),
    Column("stop"),
    Column("waiting", align="right"),
    Column("used", is_whole=False),
    Column("demanded", is_whole=False),
    Column("quota", is_whole=False),
    Column("limit", is_whole=False),
    Column("tenant"),
)
#: Resources that are not flavors, and GPUs for which a group names no model.
_NAMES = {"cpus": "CPUs", "memory_gib": "GiB", "*": "GPUs of any model"}


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
@click.argument("name")
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
@click.argument("name")
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
    rows = [
        (
            queue.name,
            queue.order,
            queue.stop if queue.stop == Stop.NONE else (queue.stop, "yellow"),
            str(queue.waiting),
            _list(queue.used),
            _list(queue.demanded),
            "none" if queue.nominal_quota is None else _list(queue.nominal_quota),
            _list(queue.limit),
            queue.tenant or "all",
        )
        for queue in found
    ]
    session.out.table(_COLUMNS, rows)


def _list(amounts: dict[str, float]) -> str:
    """Amounts that are not zero, CPUs and memory last."""
    shown = sorted((name in _NAMES, name) for name, amount in amounts.items() if amount)
    return ", ".join(f"{number(amounts[name])} {_NAMES.get(name, name)}" for _, name in shown) or "-"
