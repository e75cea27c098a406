"""Queues: made and changed. Each change raises the configuration's version in its own
transaction, so a plan made before it never commits after it (L2)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Connection, Engine

from service.domain.errors import Conflict, FieldError, InvalidRequest
from service.domain.events import Event, Kind
from service.domain.queue import Stop
from service.domain.status import Cause, Status
from service.domain.tree import QueueSettings
from service.domain.tree_rules import broken_queue_rules
from service.operations.evict import evict_units
from service.operations.read_queues import no_queue
from service.operations.transactions import in_transaction
from service.store import queues as store
from service.store.cohorts import list_cohort_ids
from service.store.config import raise_config_version
from service.store.events import add_events
from service.store.queues import QueueRecord

NAME_TAKEN = "A queue of this name is there already."


def create_queue(engine: Engine, settings: QueueSettings, *, actor: str, now: datetime) -> None:
    """Raises Conflict if the name is taken, and InvalidRequest that names each field that is wrong."""

    def work(conn: Connection) -> None:
        raise_config_version(conn, has_same_nodes=True)
        if store.find_queue(conn, settings.name) is not None:
            raise Conflict(f"Queue {settings.name}: {NAME_TAKEN}", errors=[FieldError("name", NAME_TAKEN)])
        cohort_ids = list_cohort_ids(conn)
        check_rules(settings, cohort_ids)
        store.add_queues(conn, [settings], cohort_ids=cohort_ids, now=now)
        add_events(conn, [queue_event(settings.name, "created", actor=actor, now=now)])

    in_transaction(engine, work)


def change_queue(
    engine: Engine,
    name: str,
    *,
    change: Callable[[QueueSettings], QueueSettings],
    actor: str,
    now: datetime,
) -> frozenset[int]:
    """Carry out `change`. Returns the pools whose dispatchers have members to stop.

    Raises NotFound, and InvalidRequest that names each field that would be wrong.
    """

    def work(conn: Connection) -> frozenset[int]:
        raise_config_version(conn, has_same_nodes=True)
        queue = store.find_queue(conn, name, is_locked=True)
        if queue is None:
            raise no_queue(name)
        if queue.deleting_at is not None:
            raise Conflict(f"Queue {name} is being deleted.")
        after = change(queue.settings)
        cohort_ids = list_cohort_ids(conn)
        check_rules(after, cohort_ids)
        store.change_queues(conn, {queue.id: after}, cohort_ids=cohort_ids)
        add_events(conn, [queue_event(name, "changed", actor=actor, now=now)])
        return drain_stopped(conn, queue, after=after, actor=actor, now=now)

    return in_transaction(engine, work)


def drain_stopped(
    conn: Connection, queue: QueueRecord, *, after: QueueSettings, actor: str, now: datetime
) -> frozenset[int]:
    """With hold_and_drain, evict what lives. The version was raised first, so nothing is admitted
    into the queue between this reading and the commit."""
    if after.stop is not Stop.HOLD_AND_DRAIN:
        return frozenset()
    evicted = evict_units(
        conn,
        store.list_live_units(conn, queue.id),
        target=Status.PENDING,
        # Not the group's own doing: it uses up no restart.
        cause=Cause.INFRASTRUCTURE,
        message=f"Queue {queue.name} was stopped and drained.",
        now=now,
        actor=actor,
    )
    return evicted.pool_ids


def check_rules(settings: QueueSettings, cohort_ids: dict[str, int]) -> None:
    """Raises InvalidRequest that names each field that is wrong."""
    errors = broken_queue_rules(settings, cohorts=cohort_ids)
    if errors:
        raise InvalidRequest.of(errors)


def queue_event(name: str, change: str, *, actor: str, now: datetime) -> Event:
    return Event(at=now, kind=Kind.QUEUE_CHANGED, actor=actor, data={"queue": name, "change": change})
