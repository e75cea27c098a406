"""Queues and their quotas. A queue that was deleted stays as a row for its ended groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, text, update

from service.domain.queue import Order, Quota, Stop
from service.store.models.configuration import queues, quotas


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRecord:
    """A queue as it is stored. `tenant` None takes everybody's groups."""

    id: int
    name: str
    tenant: str | None
    order: Order
    stop: Stop
    quota: Quota = field(default_factory=Quota)
    created_at: datetime


def list_queues(conn: Connection) -> tuple[QueueRecord, ...]:
    """Every queue, by name."""
    rows = conn.execute(select(queues).where(queues.c.deleted_at.is_(None)).order_by(queues.c.name)).all()
    return _with_quotas(conn, rows)


def find_queue(conn: Connection, name: str, *, is_locked: bool = False) -> QueueRecord | None:
    """`is_locked`: nobody else changes it, or submits to it, before the transaction ends."""
    query = select(queues).where(queues.c.name == name, queues.c.deleted_at.is_(None))
    rows = conn.execute(query.with_for_update() if is_locked else query).all()
    found = _with_quotas(conn, rows)
    return found[0] if found else None


def add_queue(
    conn: Connection, *, name: str, tenant: str | None, order: Order, stop: Stop, quota: Quota, now: datetime
) -> None:
    """Add a queue whose name is free."""
    queue_id = conn.execute(
        insert(queues)
        .values(
            name=name,
            tenant=tenant,
            queue_order=order.value,
            stop=stop.value,
            has_quota=quota.nominal is not None,
            created_at=now,
        )
        .returning(queues.c.id)
    ).scalar_one()
    _set_quota(conn, queue_id, quota=quota)


def change_queue(
    conn: Connection, queue_id: int, *, tenant: str | None, order: Order, stop: Stop, quota: Quota
) -> None:
    """Replace everything that may change."""
    conn.execute(
        update(queues)
        .where(queues.c.id == queue_id)
        .values(
            tenant=tenant,
            queue_order=order.value,
            stop=stop.value,
            has_quota=quota.nominal is not None,
        )
    )
    conn.execute(delete(quotas).where(quotas.c.queue_id == queue_id))
    _set_quota(conn, queue_id, quota=quota)


def delete_queue(conn: Connection, queue_id: int, *, now: datetime) -> None:
    conn.execute(update(queues).where(queues.c.id == queue_id).values(deleted_at=now))


def count_unended_groups(conn: Connection, queue_id: int) -> int:
    """Groups of the queue that wait or live."""
    statement = text(
        "SELECT count(DISTINCT g.id) FROM units u JOIN groups g ON g.id = u.group_id"
        " WHERE u.ended_at IS NULL AND g.queue_id = :queue_id"
    )
    return int(conn.execute(statement, {"queue_id": queue_id}).scalar_one())


def list_live_units(conn: Connection, queue_id: int) -> list[int]:
    """Units of the queue that hold places and are not being evicted yet."""
    statement = text(
        "SELECT unit_id FROM attempts WHERE queue_id = :queue_id AND evict_target IS NULL ORDER BY unit_id"
    )
    return list(conn.execute(statement, {"queue_id": queue_id}).scalars())


def _set_quota(conn: Connection, queue_id: int, *, quota: Quota) -> None:
    nominal, limit = quota.nominal or {}, quota.limit or {}
    rows = [
        {
            "queue_id": queue_id,
            "resource": resource,
            "nominal": nominal.get(resource),
            "hard_limit": limit.get(resource),
        }
        for resource in sorted(nominal.keys() | limit.keys())
    ]
    if rows:
        conn.execute(insert(quotas), rows)


def _with_quotas(conn: Connection, rows: Sequence[Row[*tuple[Any, ...]]]) -> tuple[QueueRecord, ...]:
    ids = [row.id for row in rows]
    nominal: dict[int, dict[str, int]] = {queue_id: {} for queue_id in ids}
    limit: dict[int, dict[str, int]] = {queue_id: {} for queue_id in ids}
    for row in conn.execute(select(quotas).where(quotas.c.queue_id.in_(ids)).order_by(quotas.c.resource)):
        if row.nominal is not None:
            nominal[row.queue_id][row.resource] = row.nominal
        if row.hard_limit is not None:
            limit[row.queue_id][row.resource] = row.hard_limit
    return tuple(_record(row, nominal[row.id], limit=limit[row.id]) for row in rows)


def _record(
    row: Row[*tuple[Any, ...],], nominal: Mapping[str, int], *, limit: Mapping[str, int]
) -> QueueRecord:
    return QueueRecord(
        id=row.id,
        name=row.name,
        tenant=row.tenant,
        order=Order(row.queue_order),
        stop=Stop(row.stop),
        quota=Quota(nominal=nominal if row.has_quota else None, limit=limit or None),
        created_at=row.created_at,
    )
