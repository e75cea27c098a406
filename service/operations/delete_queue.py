"""Deleting a queue: at once if it is empty, else, when asked to drain it, once everything in it is over.

A queue that is drained takes no groups and admits none; what runs in it is cancelled with its grace, at once,
and what waits by the ticker, step by step. Its row stays until nothing holds places of it, so that its cohort
counts what it still uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection, Engine

from service.domain.errors import Conflict
from service.domain.queue import Stop
from service.domain.status import Cause, Status
from service.domain.unit import group_of
from service.domain.wording import unended_groups
from service.operations.cancel import cancel_units
from service.operations.evict import evict_units
from service.operations.queues import queue_event
from service.operations.read_queues import no_queue
from service.operations.transactions import in_transaction
from service.store import queues as store
from service.store.cohorts import list_cohort_ids
from service.store.config import raise_config_version
from service.store.events import add_events
from service.store.queues import QueueRecord
from service.store.waiting_units import lock_waiting_units

#: One transaction cancels so many rows that wait, which takes some hundredths of a second.
MOST_UNITS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a queue that is drained is known to be empty of what waits. `passed_id`: of the front part, up
    to this unit; None: of all of it, but for these groups, which held places then and may have come back."""

    passed_id: int | None = 0
    holding: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Emptied:
    """One step for a queue that is drained."""

    queue_id: int
    has_changed: bool
    progress: Progress


def delete_queue(engine: Engine, name: str, *, has_drain: bool, actor: str, now: datetime) -> frozenset[int]:
    """Returns the pools whose dispatchers have members to stop. Raises NotFound, and, without a drain,
    Conflict while a group of the queue waits or lives."""

    def work(conn: Connection) -> frozenset[int]:
        raise_config_version(conn, has_same_nodes=True)
        queue = store.find_queue(conn, name, is_locked=True)
        if queue is None:
            raise no_queue(name)
        count = store.count_unended_groups(conn, queue.id)
        if count and not has_drain:
            raise Conflict(
                f"Queue {name} has {unended_groups(count)}. Cancel {'it' if count == 1 else 'them'} first,"
                " or drain the queue."
            )
        if count:
            return _begin(conn, queue, actor=actor, now=now)
        store.delete_queues(conn, [queue.id], now=now)
        add_events(conn, [queue_event(name, "deleted", actor=actor, now=now)])
        return frozenset()

    return in_transaction(engine, work)


def empty_queues(engine: Engine, *, known: Mapping[int, Progress], now: datetime) -> list[Emptied]:
    """One step for each queue that is drained. `known`: by queue how far the steps before have come. Who
    knows nothing of them begins at the front, so what they left is found."""
    with engine.connect() as conn:
        leaving = [queue for queue in store.list_queues(conn) if queue.deleting_at is not None]
    return [_empty(engine, queue, progress=known.get(queue.id, Progress()), now=now) for queue in leaving]


def _begin(conn: Connection, queue: QueueRecord, *, actor: str, now: datetime) -> frozenset[int]:
    stopped = replace(queue.settings, stop=Stop.HOLD_AND_DRAIN)
    store.change_queues(conn, {queue.id: stopped}, cohort_ids=list_cohort_ids(conn))
    if queue.deleting_at is None:
        store.mark_deleting(conn, queue.id, now=now)
        add_events(conn, [queue_event(queue.name, "draining", actor=actor, now=now)])
    evicted = evict_units(
        conn,
        store.list_holding_units(conn, queue.id),
        target=Status.CANCELLED,
        cause=Cause.CANCELLED,
        message=_message(queue.name),
        now=now,
        actor=actor,
    )
    return evicted.pool_ids


def _empty(engine: Engine, queue: QueueRecord, *, progress: Progress, now: datetime) -> Emptied:
    def cancel(conn: Connection) -> Emptied:
        # Before what waits: whoever comes back in between is seen there, or here the next time.
        holding = store.list_holding_groups(conn, queue.id)
        after_id, unit_ids = _to_cancel(conn, queue, progress=progress, holding=holding)
        if unit_ids:
            group_ids = {group_of(unit_id) for unit_id in unit_ids}
            units = lock_waiting_units(conn, group_ids, after_id=after_id, last_id=unit_ids[-1])
            # What holds places was told to stop when the drain began, so no dispatcher has to be rung.
            cancel_units(conn, units, message=_message(queue.name), actor="muster", now=now)
        return Emptied(
            queue_id=queue.id,
            has_changed=bool(unit_ids),
            progress=_come_to(progress, unit_ids, holding=holding),
        )

    emptied = in_transaction(engine, cancel)
    if emptied.has_changed or emptied.progress.holding:
        return emptied
    # Nothing holds places, so what waits anywhere is looked through: there may be more than was known.
    has_ended = _finish(engine, queue, now=now)
    return replace(emptied, has_changed=has_ended, progress=Progress())


def _to_cancel(
    conn: Connection, queue: QueueRecord, *, progress: Progress, holding: frozenset[int]
) -> tuple[int, list[int]]:
    """Rows that wait, of a bounded number, and the unit behind which they were looked for. All of the queue
    is gone through once; after that only those who held places and do so no more."""
    if progress.passed_id is not None:
        after_id = progress.passed_id
        return after_id, store.list_waiting_units(conn, queue.id, after_id=after_id, limit=MOST_UNITS)
    back = progress.holding - holding
    return 0, store.list_waiting_units_of(conn, back)[:MOST_UNITS] if back else []


def _come_to(progress: Progress, unit_ids: Sequence[int], *, holding: frozenset[int]) -> Progress:
    """After a step that found these rows. While the queue is gone through, whoever held places at any step
    may have come back in the part that is behind."""
    if progress.passed_id is not None:
        holding |= progress.holding
    return Progress(passed_id=unit_ids[-1] if len(unit_ids) == MOST_UNITS else None, holding=holding)


def _finish(engine: Engine, queue: QueueRecord, *, now: datetime) -> bool:
    """Whether it is gone."""

    def finish(conn: Connection) -> bool:
        raise_config_version(conn, has_same_nodes=True)
        found = store.find_queue(conn, queue.name, is_locked=True)
        if found is None or found.id != queue.id or store.count_unended_groups(conn, queue.id):
            return False
        store.delete_queues(conn, [queue.id], now=now)
        add_events(conn, [queue_event(queue.name, "deleted", actor="muster", now=now)])
        return True

    # Before the version is raised, which ends what is being planned.
    with engine.connect() as conn:
        is_empty = not store.count_unended_groups(conn, queue.id)
    return is_empty and in_transaction(engine, finish)


def _message(name: str) -> str:
    return f"cancelled because queue {name} is being deleted"
