"""Members of a group for readers, by index."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from service.domain.node import Place
from service.domain.status import Status
from service.store.member_ends import MemberEnd
from service.store.places import places_of


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRow:
    """A row of `units` with its live attempt, or the attempt that it ended with. `generation` None
    and no `places` while it waits. `adding` and `dropping`: members that come or go while it runs."""

    id: int
    first_index: int
    last_index: int
    status: Status
    attempt: int
    is_held: bool
    admitted_at: datetime | None
    ended_at: datetime | None
    cause: str | None
    message: str | None
    generation: int | None
    places: tuple[Place, ...]
    adding: tuple[int, ...] = ()
    dropping: tuple[int, ...] = ()


_UNITS = """
SELECT u.id, u.first_index, u.last_index, u.status, u.attempt, u.is_held, u.admitted_at, u.ended_at,
  u.cause, u.message, coalesce(a.generation, c.generation) AS generation,
  coalesce(a.places, c.places, '[]'::jsonb) AS places,
  coalesce(a.adding, '{}') AS adding, coalesce(a.dropping, '{}') AS dropping
FROM units u
LEFT JOIN attempts a ON a.unit_id = u.id
LEFT JOIN closed_attempts c ON c.unit_id = u.id AND c.attempt = u.attempt AND u.ended_at IS NOT NULL
WHERE u.group_id = :group_id
"""
_FROM = _UNITS + " AND u.last_index >= :first ORDER BY u.id LIMIT :limit"
_WITH_STATUS = _UNITS + " AND u.last_index >= :first AND u.status = ANY(:statuses) ORDER BY u.id LIMIT :limit"


def list_unit_rows(
    conn: Connection, group_id: int, *, first: int, limit: int, statuses: Collection[Status] = ()
) -> list[UnitRow]:
    """Units that cover members from index `first` on, at most `limit` of them, in their order."""
    values = {"group_id": group_id, "first": first, "limit": limit}
    if statuses:
        rows = conn.execute(text(_WITH_STATUS), values | {"statuses": [status.value for status in statuses]})
    else:
        rows = conn.execute(text(_FROM), values)
    return [_unit_row(row) for row in rows]


def list_ends(conn: Connection, units: Sequence[UnitRow]) -> dict[tuple[int, int], MemberEnd]:
    """Ends of members in the present attempt and generation of their unit, by (unit, member)."""
    rows = conn.execute(
        text(
            "SELECT e.unit_id, e.attempt, e.generation, e.member, e.exit_code, e.ended_at, e.detail"
            " FROM member_ends e JOIN unnest(CAST(:ids AS bigint[]), CAST(:attempts AS int[]),"
            " CAST(:generations AS int[])) AS v (unit_id, attempt, generation)"
            " USING (unit_id, attempt, generation)"
        ),
        {
            "ids": [unit.id for unit in units],
            "attempts": [unit.attempt for unit in units],
            "generations": [unit.generation for unit in units],
        },
    )
    ends = [MemberEnd(**row._mapping) for row in rows]
    return {(end.unit_id, end.member): end for end in ends}


def find_newest_run(conn: Connection, unit_id: int, *, attempt: int | None = None) -> tuple[int, int]:
    """Attempt and generation of a unit's newest launch (of one attempt, if given); the first of each
    before there was any."""
    row = conn.execute(
        text(
            "SELECT attempt, generation FROM ("
            " SELECT attempt, generation FROM attempts WHERE unit_id = :unit_id"
            " UNION ALL SELECT attempt, generation FROM closed_attempts WHERE unit_id = :unit_id) AS runs"
            " WHERE CAST(:attempt AS int) IS NULL OR attempt = CAST(:attempt AS int)"
            " ORDER BY attempt DESC LIMIT 1"
        ),
        {"unit_id": unit_id, "attempt": attempt},
    ).first()
    return (row.attempt, row.generation) if row else (1, 1)


def _unit_row(row: Row[Any]) -> UnitRow:
    changed = {
        "status": Status(row.status),
        "places": places_of(row.places),
        "adding": tuple(row.adding),
        "dropping": tuple(row.dropping),
    }
    return UnitRow(**(row._asdict() | changed))
