"""`muster queues`: where groups wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import rich_click as click

from service.cli.amounts import (
    NAMES,
    list_bounds,
    list_limit,
    list_used,
    ordered,
    show_amount,
    show_bound,
)
from service.cli.completing import complete_queues
from service.cli.model_hints import hint_at_models
from service.cli.printer import Cell, Column
from service.cli.queue_options import QUEUE, changes_of, fields_of, with_options
from service.cli.session import Session, pass_session, print_options
from service.cli.sharers import lending, show_deleted, show_rows, show_settings
from service.cli.spans import number
from service.domain.queue import Order, Stop

if TYPE_CHECKING:
    from service.client.queues import Queue

_COLUMNS = (
    Column("queue", is_cut=True),
    Column("cohort", is_cut=True),
    Column("order"),
    Column("stop"),
    Column("waits", align="right"),
    Column("share", align="right"),
    Column("resource"),
    Column("used", align="right"),
    Column("asked", align="right"),
    Column("quota", align="right"),
    Column("limit", align="right"),
    Column("tenant", is_cut=True),
)
#: Said once for each queue, so that a row of a resource has them empty.
_OF_QUEUE = 6
_SHORT = NAMES | {"*": "any GPU"}
#: In a word, so that names have room.
_STOPS: dict[str, str] = {Stop.HOLD_AND_DRAIN: "drain"}


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
@click.argument("name", shell_complete=complete_queues)
@print_options
@pass_session
def show(session: Session, *, name: str) -> None:
    """Show everything that is set for a queue."""
    with session.client() as client:
        queue = client.queues.get(name)
    show_settings(session.out, queue, _pairs(queue))


@queues.command()
@click.argument("name")
@with_options(QUEUE)
@print_options
@pass_session
def create(session: Session, /, *, name: str, **changes: Any) -> None:
    """Make a queue (admin). Without --quota it has none, and may use everything."""
    fields = fields_of(changes, QUEUE)
    with session.client() as client:
        _show(session, [client.queues.create(name, fields)])
        hint_at_models(session, client, [fields])


@queues.command()
@click.argument("name", shell_complete=complete_queues)
@with_options(QUEUE)
@print_options
@pass_session
def update(session: Session, /, *, name: str, **changes: Any) -> None:
    """Change a queue (admin). --quota and what else may be given several times replace all that was set.

    Lowering a quota evicts nobody.
    """
    fields = changes_of(changes, QUEUE)
    with session.client() as client:
        _show(session, [client.queues.update(name, fields)])
        hint_at_models(session, client, [fields])


@queues.command()
@click.argument("name", shell_complete=complete_queues)
@click.option("--drain", is_flag=True, help="Cancel its groups; it goes when the last has ended.")
@print_options
@pass_session
def delete(session: Session, *, name: str, drain: bool) -> None:
    """Delete a queue (admin) in which nothing waits or runs, or drain it first."""
    with session.client() as client:
        queue = client.queues.delete(name, has_drain=drain)
    said = f"The queue {queue.name} takes no groups any more, and goes once it is empty."
    show_deleted(session.out, queue, said if drain else f"Deleted the queue {queue.name}.")


def _show(session: Session, found: Sequence[Queue]) -> None:
    if session.is_json:
        session.out.json(found[0])
        return
    if session.out.is_terminal:
        has_cohorts = any(queue.cohort for queue in found)
        rows = [row for queue in found for row in _rows(queue, has_cohorts=has_cohorts)]
        # Most queues are open, and for everybody.
        show_rows(session.out, _COLUMNS, rows)
    else:
        session.out.table((), [_fields(queue) for queue in found])


def _rows(queue: Queue, *, has_cohorts: bool) -> list[list[Cell]]:
    """One row for each resource; what is true of the whole queue is said in the first."""
    stop: Cell = "" if queue.stop == Stop.NONE else (_STOPS.get(queue.stop, queue.stop), "yellow")
    if queue.deleting_at is not None:
        stop = ("deleted", "red")
    rows: list[list[Cell]] = []
    for name in ordered({*queue.used, *queue.demanded, *(queue.nominal_quota or {}), *queue.limit}):
        amounts = [show_amount(each, name) for each in (queue.used, queue.demanded)]
        bounds = [show_bound(queue.nominal_quota, name), show_bound(queue.limit, name) if queue.limit else ""]
        rows.append([*[""] * _OF_QUEUE, _SHORT.get(name, name), *amounts, *bounds, ""])
    rows = rows or [[*[""] * _OF_QUEUE, "-", "-", "-", show_bound(queue.nominal_quota, ""), "", ""]]
    # Where queues share, the order is told only of those that are strict.
    order = "" if has_cohorts and queue.order == Order.BEST_EFFORT else queue.order
    share = _share(queue) if has_cohorts else ""
    rows[0][:_OF_QUEUE] = [queue.name, queue.cohort or "", order, stop, str(queue.waiting), share]
    rows[0][-1] = queue.tenant or ""
    return rows


def _share(queue: Queue) -> str:
    return "\N{INFINITY}" if queue.share == "infinite" else f"{float(queue.share):.2f}"


def _fields(queue: Queue) -> list[Cell]:
    return [
        queue.name,
        queue.order,
        queue.stop,
        str(queue.waiting),
        list_used(queue.used),
        list_used(queue.demanded),
        "none" if queue.nominal_quota is None else list_used(queue.nominal_quota),
        list_used(queue.limit),
        queue.tenant or "all",
        queue.cohort or "-",
    ]


def _pairs(queue: Queue) -> list[tuple[str, str]]:
    quota = "none" if queue.nominal_quota is None else list_bounds(queue.nominal_quota)
    highest = ", ".join(f"{role} up to {priority}" for role, priority in queue.highest_priority.items())
    return [
        ("queue", queue.name),
        ("tenant", queue.tenant or "all"),
        ("cohort", queue.cohort or "-"),
        ("weight", number(queue.weight)),
        ("order", f"{queue.order}, by {queue.order_by}"),
        ("stop", queue.stop),
        ("quota", quota),
        *lending(queue, is_in_cohort=queue.cohort is not None),
        ("limit", list_limit(queue.limit)),
        ("of a user", list_limit(queue.user_limit)),
        ("of a group", list_limit(queue.group_limit)),
        ("models", "any" if queue.flavors is None else ", ".join(queue.flavors) or "none"),
        ("pools", "any" if queue.pools is None else ", ".join(queue.pools) or "none"),
        ("filling", queue.filling),
        ("preempts", f"within it: {queue.preempt_within}; takes back: {queue.reclaim}"),
        ("min runtime", queue.min_runtime),
        ("evictions", f"{queue.evictions_per_day or 'any number'} of a group in a day"),
        ("priority", highest or "any"),
        ("time limit", _time_limit(queue)),
        ("waits", f"{queue.waiting} groups"),
        ("uses", list_used(queue.used)),
        ("borrowed", list_used(queue.borrowed)),
        ("asked", list_used(queue.demanded)),
        ("share", f"{_share(queue)}, rank {queue.rank}"),
    ]


def _time_limit(queue: Queue) -> str:
    """Of a group that names none, and the longest. Without a default it is the longest."""
    if queue.max_time_limit is None:
        return f"{queue.default_time_limit or 'none'} unless a group names its own"
    return f"{queue.default_time_limit or queue.max_time_limit}, at most {queue.max_time_limit}"
