"""Queues: made, changed and deleted. Each change raises the configuration's version in its own
transaction, so a plan made before it never commits after it (L2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from msgspec import UNSET, UnsetType
from sqlalchemy import Connection, Engine

from service.domain.errors import Conflict, FieldError, InvalidRequest, NotFound
from service.domain.events import Event, Kind
from service.domain.principal import Principal
from service.domain.queue import Order, Quota, Stop
from service.domain.status import Cause, Status
from service.operations.evict import evict_units
from service.operations.transactions import in_transaction
from service.store import queues as store
from service.store.config import raise_config_version
from service.store.events import add_events
from service.store.queues import QueueRecord
from service.store.usage import used_by_queue, waiting_by_queue

NAME_TAKEN = "A queue of this name is there already."


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """A queue with what it holds and what its groups ask for, by resource."""

    queue: QueueRecord
    used: Mapping[str, int] = field(default_factory=dict)
    demanded: Mapping[str, int] = field(default_factory=dict)
    waiting_groups: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueChange:
    """What to change; UNSET leaves it. A map replaces the whole map."""

    tenant: str | UnsetType | None = UNSET
    order: Order | UnsetType = UNSET
    stop: Stop | UnsetType = UNSET
    nominal: Mapping[str, int] | UnsetType | None = UNSET
    limit: Mapping[str, int] | UnsetType | None = UNSET


def list_queues(engine: Engine, principal: Principal) -> tuple[QueueView, ...]:
    """The queues that this key may know of, by name."""
    with engine.connect() as conn:
        found = [queue for queue in store.list_queues(conn) if _may_see(principal, queue)]
        return tuple(_views(conn, found))


def get_queue(engine: Engine, name: str, *, principal: Principal) -> QueueView:
    """Raises NotFound, also for a queue of another tenant."""
    with engine.connect() as conn:
        queue = store.find_queue(conn, name)
        if queue is None or not _may_see(principal, queue):
            raise _no_queue(name)
        return next(_views(conn, [queue]))


def create_queue(
    engine: Engine,
    *,
    name: str,
    tenant: str | None,
    order: Order,
    stop: Stop,
    quota: Quota,
    actor: str,
    now: datetime,
) -> None:
    """Raises Conflict if the name is taken and InvalidRequest if a nominal quota is above its limit."""
    _check_quota(quota)

    def work(conn: Connection) -> None:
        raise_config_version(conn)
        if store.find_queue(conn, name) is not None:
            raise Conflict(f"Queue {name}: {NAME_TAKEN}", errors=[FieldError("name", NAME_TAKEN)])
        store.add_queue(conn, name=name, tenant=tenant, order=order, stop=stop, quota=quota, now=now)
        add_events(conn, [_changed(name, "created", actor=actor, now=now)])

    in_transaction(engine, work)


def change_queue(
    engine: Engine, name: str, *, change: QueueChange, actor: str, now: datetime
) -> frozenset[int]:
    """Carry out `change`. Returns the pools whose dispatchers have members to stop.

    Raises NotFound, and InvalidRequest if a nominal quota would be above its limit.
    """

    def work(conn: Connection) -> frozenset[int]:
        raise_config_version(conn)
        queue = store.find_queue(conn, name, is_locked=True)
        if queue is None:
            raise _no_queue(name)
        after = _apply(queue, change)
        _check_quota(after.quota)
        store.change_queue(
            conn, queue.id, tenant=after.tenant, order=after.order, stop=after.stop, quota=after.quota
        )
        add_events(conn, [_changed(name, "changed", actor=actor, now=now)])
        return _drain(conn, after, actor=actor, now=now)

    return in_transaction(engine, work)


def delete_queue(engine: Engine, name: str, *, actor: str, now: datetime) -> None:
    """Raises NotFound, and Conflict while a group of the queue waits or lives."""

    def work(conn: Connection) -> None:
        raise_config_version(conn)
        queue = store.find_queue(conn, name, is_locked=True)
        if queue is None:
            raise _no_queue(name)
        count = store.count_unended_groups(conn, queue.id)
        if count:
            raise Conflict(f"Queue {name} has {count} groups that have not ended. Cancel them first.")
        store.delete_queue(conn, queue.id, now=now)
        add_events(conn, [_changed(name, "deleted", actor=actor, now=now)])

    in_transaction(engine, work)


def _drain(conn: Connection, queue: QueueRecord, *, actor: str, now: datetime) -> frozenset[int]:
    """With hold_and_drain, evict what lives. The version was raised first, so nothing is admitted
    into the queue between this reading and the commit."""
    if queue.stop is not Stop.HOLD_AND_DRAIN:
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


def _apply(queue: QueueRecord, change: QueueChange) -> QueueRecord:
    return replace(
        queue,
        tenant=queue.tenant if change.tenant is UNSET else change.tenant,
        order=queue.order if change.order is UNSET else change.order,
        stop=queue.stop if change.stop is UNSET else change.stop,
        quota=Quota(
            nominal=queue.quota.nominal if change.nominal is UNSET else change.nominal,
            limit=queue.quota.limit if change.limit is UNSET else change.limit,
        ),
    )


def _check_quota(quota: Quota) -> None:
    nominal, limit = quota.nominal or {}, quota.limit or {}
    above = sorted(
        resource for resource in nominal.keys() & limit.keys() if nominal[resource] > limit[resource]
    )
    if above:
        named = ", ".join(above)
        raise InvalidRequest(
            f"The nominal quota is above the limit of the queue: {named}.",
            errors=[
                FieldError("nominal_quota", f"Above the limit: {named}."),
                FieldError("limit", f"Below the nominal quota: {named}."),
            ],
        )


def _views(conn: Connection, found: list[QueueRecord]) -> Iterator[QueueView]:
    used, waiting = used_by_queue(conn), waiting_by_queue(conn)
    for queue in found:
        held = used.get(queue.id, {})
        asked = waiting.get(queue.id)
        demanded = dict(held)
        for resource, amount in asked.amounts.items() if asked else ():
            demanded[resource] = demanded.get(resource, 0) + amount
        yield QueueView(
            queue=queue, used=held, demanded=demanded, waiting_groups=asked.groups if asked else 0
        )


def _may_see(principal: Principal, queue: QueueRecord) -> bool:
    return principal.is_operator or queue.tenant in (None, principal.tenant)


def _no_queue(name: str) -> NotFound:
    return NotFound(f"There is no queue {name}.")


def _changed(name: str, change: str, *, actor: str, now: datetime) -> Event:
    return Event(at=now, kind=Kind.QUEUE_CHANGED, actor=actor, data={"queue": name, "change": change})
