"""Deleting a queue: at once if it is empty, else, when asked to drain it, once everything in it is over.

A queue that is drained takes no groups and admits none; what runs in it is cancelled with its grace, at once,
and what waits by the ticker, step by step. Its row stays until nothing holds places of it, so that its cohort
counts what it still uses."""

from __future__ import annotations

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
from service.store.waiting_units import lock_group_units

#: One transaction cancels so many groups.
MOST_GROUPS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Emptied:
    """One step for a queue that is drained. `has_more`: groups may still wait in it."""

    has_changed: bool
    has_more: bool


def delete_queue(engine: Engine, name: str, *, has_drain: bool, actor: str, now: datetime) -> frozenset[int]:
    """Returns the pools whose dispatchers have members to stop. Raises NotFound, and, without a drain,
    Conflict while a group of the queue waits or lives."""

    def work(conn: Connection) -> frozenset[int]:
        raise_config_version(conn)
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


def empty_queues(engine: Engine, *, now: datetime) -> list[Emptied]:
    """One step for each queue that is drained."""
    with engine.connect() as conn:
        leaving = [queue for queue in store.list_queues(conn) if queue.deleting_at is not None]
    return [_empty(engine, queue, now=now) for queue in leaving]


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


def _empty(engine: Engine, queue: QueueRecord, *, now: datetime) -> Emptied:
    def cancel(conn: Connection) -> Emptied:
        group_ids = store.list_waiting_groups(conn, queue.id, limit=MOST_GROUPS)
        for group_id in group_ids:
            units = lock_group_units(conn, group_id)
            # What holds places was told to stop when the drain began, so no dispatcher has to be rung.
            cancel_units(conn, group_id, units=units, message=_message(queue.name), actor="muster", now=now)
        return Emptied(has_changed=bool(group_ids), has_more=len(group_ids) == MOST_GROUPS)

    def finish(conn: Connection) -> bool:
        raise_config_version(conn)
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
    """Before the version is raised, which ends what is being planned."""
    with engine.connect() as conn:
        return store.count_unended_groups(conn, queue.id) == 0


def _message(name: str) -> str:
    return f"cancelled because queue {name} is being deleted"
