"""Deleting a queue: at once if it is empty, else, when asked to drain it, once everything in it is over.

A queue that is drained takes no groups and admits none; what runs in it is cancelled with its grace, at once,
and what waits by the ticker, step by step. Its row stays until nothing holds places of it, so that its cohort
counts what it still uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection, Engine

from service.domain.errors import Conflict
from service.domain.queue import Stop
from service.domain.status import Cause, Status
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
from service.store.waiting_units import lock_units_of_groups

#: One transaction cancels so many groups, which takes some hundredths of a second.
MOST_GROUPS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Emptied:
    """One step for a queue that is drained. `passed_id`: the last group of a full step, behind which more may
    wait."""

    queue_id: int
    has_changed: bool
    passed_id: int | None = None


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
                f"Queue {name} has {count} groups that have not ended. Cancel them first, or drain it."
            )
        if count:
            return _begin(conn, queue, actor=actor, now=now)
        store.delete_queues(conn, [queue.id], now=now)
        add_events(conn, [queue_event(name, "deleted", actor=actor, now=now)])
        return frozenset()

    return in_transaction(engine, work)


def empty_queues(engine: Engine, *, passed: Mapping[int, int], now: datetime) -> list[Emptied]:
    """One step for each queue that is drained. `passed`: by queue the group from behind which to go on. Of
    the others the step begins at the front, so what was left there is found, also by whoever knows nothing
    of the steps before."""
    with engine.connect() as conn:
        leaving = [queue for queue in store.list_queues(conn) if queue.deleting_at is not None]
    return [_empty(engine, queue, after_id=passed.get(queue.id, 0), now=now) for queue in leaving]


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


def _empty(engine: Engine, queue: QueueRecord, *, after_id: int, now: datetime) -> Emptied:
    def cancel(conn: Connection) -> Emptied:
        group_ids = store.list_waiting_groups(conn, queue.id, after_id=after_id, limit=MOST_GROUPS)
        if group_ids:
            units = lock_units_of_groups(conn, group_ids)
            # What holds places was told to stop when the drain began, so no dispatcher has to be rung.
            cancel_units(conn, units, message=_message(queue.name), actor="muster", now=now)
        return Emptied(
            queue_id=queue.id,
            has_changed=bool(group_ids),
            passed_id=group_ids[-1] if len(group_ids) == MOST_GROUPS else None,
        )

    def finish(conn: Connection) -> bool:
        raise_config_version(conn, has_same_nodes=True)
        found = store.find_queue(conn, queue.name, is_locked=True)
        if found is None or found.id != queue.id or store.count_unended_groups(conn, queue.id):
            return False
        store.delete_queues(conn, [queue.id], now=now)
        add_events(conn, [queue_event(queue.name, "deleted", actor="muster", now=now)])
        return True

    emptied = in_transaction(engine, cancel)
    if emptied.has_changed or not _is_empty(engine, queue):
        return emptied
    return replace(emptied, has_changed=in_transaction(engine, finish))


def _is_empty(engine: Engine, queue: QueueRecord) -> bool:
    """Before the version is raised, which ends what is being planned. To count takes a look at all that waits
    anywhere, which what holds places makes needless."""
    with engine.connect() as conn:
        return not store.has_holding_units(conn, queue.id) and not store.count_unended_groups(conn, queue.id)


def _message(name: str) -> str:
    return f"cancelled because queue {name} is being deleted"
