"""Queues and their quotas. A queue that was deleted stays as a row for its ended groups."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, bindparam, delete, insert, select, text, update

from service.domain.queue import Order, QueuePolicy, Quota, Stop
from service.domain.tree import QueueSettings
from service.store.models.configuration import cohorts, queues, quotas
from service.store.quotas import quota_amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRecord:
    """A queue as it is stored. `deleting_at`: since when it takes no groups, because it is to go."""

    id: int
    settings: QueueSettings
    created_at: datetime
    deleting_at: datetime | None = None

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def quota(self) -> Quota:
        return self.settings.quota


def list_queues(conn: Connection) -> tuple[QueueRecord, ...]:
    """Every queue, by name."""
    return _records(conn, conn.execute(_ROWS.order_by(queues.c.name)).all())


def find_queue(conn: Connection, name: str, *, is_locked: bool = False) -> QueueRecord | None:
    """`is_locked`: nobody else changes it, or submits to it, before the transaction ends."""
    query = _ROWS.where(queues.c.name == name)
    rows = conn.execute(query.with_for_update(of=queues) if is_locked else query).all()
    found = _records(conn, rows)
    return found[0] if found else None


def add_queues(
    conn: Connection, settings: Sequence[QueueSettings], *, cohort_ids: Mapping[str, int], now: datetime
) -> None:
    """Add queues whose names are free."""
    if not settings:
        return
    rows = [_row(each, cohort_ids) | {"created_at": now} for each in settings]
    names = conn.execute(insert(queues).returning(queues.c.id, queues.c.name), rows)
    ids = {row.name: row.id for row in names}
    _add_quotas(conn, {ids[each.name]: each.quota for each in settings})


def change_queues(
    conn: Connection, settings: Mapping[int, QueueSettings], *, cohort_ids: Mapping[str, int]
) -> None:
    """Replace everything but the name, by id."""
    if not settings:
        return
    rows = [_row(each, cohort_ids) | {"queue_id": queue_id} for queue_id, each in settings.items()]
    conn.execute(update(queues).where(queues.c.id == bindparam("queue_id")), rows)
    conn.execute(delete(quotas).where(quotas.c.queue_id.in_(settings)))
    _add_quotas(conn, {queue_id: each.quota for queue_id, each in settings.items()})


def delete_queues(conn: Connection, queue_ids: Collection[int], *, now: datetime) -> None:
    """Their names are free, and they are in no cohort any more."""
    conn.execute(update(queues).where(queues.c.id.in_(queue_ids)).values(deleted_at=now, cohort_id=None))


def lock_queues(conn: Connection, queue_ids: Collection[int]) -> None:
    """Nobody else changes them, or submits to them, before the transaction ends."""
    if queue_ids:
        query = select(queues.c.id).where(queues.c.id.in_(queue_ids)).order_by(queues.c.id)
        conn.execute(query.with_for_update()).all()


def mark_deleting(conn: Connection, queue_id: int, *, now: datetime) -> None:
    """From here on it takes no groups."""
    conn.execute(update(queues).where(queues.c.id == queue_id).values(deleting_at=now))


def count_unended_groups(conn: Connection, queue_id: int) -> int:
    """Groups of the queue that wait or live."""
    statement = text(
        "SELECT count(DISTINCT g.id) FROM units u JOIN groups g ON g.id = u.group_id"
        " WHERE u.ended_at IS NULL AND g.queue_id = :queue_id"
    )
    return int(conn.execute(statement, {"queue_id": queue_id}).scalar_one())


def list_waiting_units(conn: Connection, queue_id: int, *, after_id: int, limit: int) -> list[int]:
    """Rows of the queue that wait, those of the oldest group first, from behind the unit `after_id`."""
    rows = conn.execute(_WAITING_UNITS, {"queue_id": queue_id, "after_id": after_id, "limit": limit})
    return list(rows.scalars())


def list_waiting_units_of(conn: Connection, group_ids: Collection[int]) -> list[int]:
    """Rows of these groups that wait."""
    return list(conn.execute(_WAITING_UNITS_OF, {"group_ids": list(group_ids)}).scalars())


#: Along what has not ended, from where the last step came to and no further than needed: OFFSET keeps the
#: planner from reading the whole queue first.
_WAITING_UNITS = text("""
    SELECT u.id FROM units u
    CROSS JOIN LATERAL (SELECT g.queue_id FROM groups g WHERE g.id = u.group_id OFFSET 0) AS g
    WHERE u.ended_at IS NULL AND u.group_id >= CAST(:after_id AS bigint) >> 20 AND u.id > :after_id
      AND u.status = 'Pending' AND g.queue_id = :queue_id
    ORDER BY u.group_id, u.id LIMIT :limit
""")
_WAITING_UNITS_OF = text("""
    SELECT id FROM units
    WHERE group_id = ANY(CAST(:group_ids AS bigint[])) AND ended_at IS NULL AND status = 'Pending'
    ORDER BY id
""")


def list_holding_groups(conn: Connection, queue_id: int) -> frozenset[int]:
    """Groups of the queue that hold places."""
    statement = text("SELECT DISTINCT group_id FROM attempts WHERE queue_id = :queue_id")
    return frozenset(conn.execute(statement, {"queue_id": queue_id}).scalars())


def list_holding_units(conn: Connection, queue_id: int) -> list[int]:
    """Units of the queue that hold places."""
    statement = text("SELECT unit_id FROM attempts WHERE queue_id = :queue_id ORDER BY unit_id")
    return list(conn.execute(statement, {"queue_id": queue_id}).scalars())


def list_live_units(conn: Connection, queue_id: int) -> list[int]:
    """Units of the queue that hold places and are not being evicted yet."""
    statement = text(
        "SELECT unit_id FROM attempts WHERE queue_id = :queue_id AND evict_target IS NULL ORDER BY unit_id"
    )
    return list(conn.execute(statement, {"queue_id": queue_id}).scalars())


_ROWS = (
    select(queues, cohorts.c.name.label("cohort"))
    .outerjoin(cohorts, cohorts.c.id == queues.c.cohort_id)
    .where(queues.c.deleted_at.is_(None))
)


def _row(settings: QueueSettings, cohort_ids: Mapping[str, int]) -> dict[str, Any]:
    return {
        "name": settings.name,
        "tenant": settings.tenant,
        "cohort_id": None if settings.cohort is None else cohort_ids[settings.cohort],
        "queue_order": settings.order.value,
        "stop": settings.stop.value,
        "has_quota": settings.quota.nominal is not None,
        "policy": msgspec.to_builtins(settings.policy),
    }


def _add_quotas(conn: Connection, found: Mapping[int, Quota]) -> None:
    rows = [
        {
            "queue_id": queue_id,
            "resource": resource,
            "nominal": (quota.nominal or {}).get(resource),
            "hard_limit": (quota.limit or {}).get(resource),
            "borrowing": quota.borrowing.get(resource),
            "lending": quota.lending.get(resource),
        }
        for queue_id, quota in found.items()
        for resource in sorted(
            {*(quota.nominal or {}), *(quota.limit or {}), *quota.borrowing, *quota.lending}
        )
    ]
    if rows:
        conn.execute(insert(quotas), rows)


def _records(conn: Connection, rows: Sequence[Row[*tuple[Any, ...]]]) -> tuple[QueueRecord, ...]:
    ids = [row.id for row in rows]
    said: dict[int, list[Row[*tuple[Any, ...]]]] = {queue_id: [] for queue_id in ids}
    for row in conn.execute(select(quotas).where(quotas.c.queue_id.in_(ids)).order_by(quotas.c.resource)):
        said[row.queue_id].append(row)
    return tuple(_record(row, said[row.id]) for row in rows)


def _record(row: Row[*tuple[Any, ...]], said: Sequence[Row[*tuple[Any, ...]]]) -> QueueRecord:
    return QueueRecord(
        id=row.id,
        settings=QueueSettings(
            name=row.name,
            tenant=row.tenant,
            cohort=row.cohort,
            order=Order(row.queue_order),
            stop=Stop(row.stop),
            quota=Quota(
                nominal=quota_amounts(said, "nominal") if row.has_quota else None,
                limit=quota_amounts(said, "hard_limit") or None,
                borrowing=quota_amounts(said, "borrowing"),
                lending=quota_amounts(said, "lending"),
            ),
            policy=msgspec.convert(row.policy, QueuePolicy),
        ),
        created_at=row.created_at,
        deleting_at=row.deleting_at,
    )
