"""What readers want to know of groups."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

from service.domain.shape import Scheduling
from service.domain.status import Status, group_status

GROUP_COLUMNS = (
    "g.id, g.public_id, g.name, g.queue_id, q.name AS queue, g.shape_id, g.tenant, g.owner, g.priority,"
    " g.scheduling, g.member_count, g.submitted_at, g.time_limit_seconds, g.grace_seconds, g.labels"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A group as it was submitted, and changed since. `id` is internal, `public_id` is what users know."""

    id: int
    public_id: UUID
    name: str
    queue_id: int
    queue: str
    shape_id: int
    tenant: str
    owner: str
    priority: int
    scheduling: Scheduling
    member_count: int
    submitted_at: datetime
    time_limit_seconds: int | None
    grace_seconds: int
    labels: Mapping[str, str]

    @property
    def is_gang(self) -> bool:
        return self.scheduling is Scheduling.GANG


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitsOf:
    """The units of one group, taken together. `counts`: a gang is one unit, each member of an
    independent group is one. `cause` and `message` are those of a failed unit if there is one,
    and `member` is then its index. `ended_at` is None while one has not ended."""

    counts: Mapping[Status, int]
    attempt: int
    restarts_used: int
    refused_dispatches: int
    is_held: bool
    backoff_until: datetime | None
    admitted_at: datetime | None
    ended_at: datetime | None
    cause: str | None = None
    message: str | None = None
    member: int | None = None

    @property
    def status(self) -> Status:
        return group_status(self.counts)

    @property
    def is_waiting(self) -> bool:
        """The whole group, or some members of it, wait."""
        return self.counts.get(Status.PENDING, 0) > 0


def find_group(conn: Connection, public_id: UUID) -> GroupRow | None:
    row = conn.execute(
        text(
            f"SELECT {GROUP_COLUMNS} FROM groups g JOIN queues q ON q.id = g.queue_id"  # noqa: S608
            " WHERE g.public_id = :public_id"
        ),
        {"public_id": public_id},
    ).first()
    return None if row is None else group_row(row)


def group_row(row: Row[Any]) -> GroupRow:
    """From a row of GROUP_COLUMNS."""
    values = row._asdict()
    fields = {name: values[name] for name in GroupRow.__dataclass_fields__}
    return GroupRow(**(fields | {"scheduling": Scheduling(fields["scheduling"])}))


def load_units_of(conn: Connection, group_ids: Collection[int]) -> dict[int, UnitsOf]:
    """The units of each of these groups, taken together."""
    rows = conn.execute(
        text(
            "SELECT group_id, status, sum(last_index - first_index + 1) AS units, max(attempt) AS attempt,"
            " sum(restarts_used) AS restarts_used, max(refused_dispatches) AS refused_dispatches,"
            " bool_or(is_held) AS is_held, max(backoff_until) AS backoff_until,"
            " min(admitted_at) AS admitted_at, max(ended_at) AS ended_at"
            " FROM units WHERE group_id = ANY(:ids) GROUP BY group_id, status"
        ),
        {"ids": list(group_ids)},
    )
    by_group: dict[int, list[Row[Any]]] = {}
    for row in rows:
        by_group.setdefault(row.group_id, []).append(row)
    notes = _notes(conn, group_ids)
    return {group_id: _together(rows, notes.get(group_id)) for group_id, rows in by_group.items()}


def units_of_new(members: int) -> UnitsOf:
    """The units of a group to which nothing has happened yet."""
    return UnitsOf(
        counts={Status.PENDING: members},
        attempt=1,
        restarts_used=0,
        refused_dispatches=0,
        is_held=False,
        backoff_until=None,
        admitted_at=None,
        ended_at=None,
    )


def _notes(conn: Connection, group_ids: Collection[int]) -> dict[int, Row[Any]]:
    """For each group the unit whose cause says most: a failed one, else a cancelled one, else any. Of one
    that recovers or is evicted its attempt knows why."""
    rows = conn.execute(
        text(
            "SELECT DISTINCT ON (u.group_id) u.group_id, u.first_index,"
            " COALESCE(a.evict_cause, u.cause) AS cause, COALESCE(a.evict_message, u.message) AS message"
            " FROM units u LEFT JOIN attempts a ON a.unit_id = u.id"
            " WHERE u.group_id = ANY(:ids)"
            " AND COALESCE(a.evict_cause, a.evict_message, u.cause, u.message) IS NOT NULL"
            " ORDER BY u.group_id, u.status = 'Failed' DESC, u.status = 'Cancelled' DESC, u.first_index"
        ),
        {"ids": list(group_ids)},
    )
    return {row.group_id: row for row in rows}


def _together(rows: Collection[Row[Any]], note: Row[Any] | None) -> UnitsOf:
    pending = [row for row in rows if row.status == Status.PENDING.value]
    has_ended = all(row.ended_at is not None for row in rows)
    return UnitsOf(
        counts={Status(row.status): int(row.units) for row in rows},
        attempt=max(row.attempt for row in rows),
        restarts_used=int(sum(row.restarts_used for row in rows)),
        refused_dispatches=max(row.refused_dispatches for row in rows),
        is_held=any(row.is_held for row in rows),
        backoff_until=max((row.backoff_until for row in pending if row.backoff_until), default=None),
        admitted_at=min((row.admitted_at for row in rows if row.admitted_at), default=None),
        ended_at=max(row.ended_at for row in rows) if has_ended else None,
        cause=note.cause if note else None,
        message=note.message if note else None,
        member=note.first_index if note else None,
    )
