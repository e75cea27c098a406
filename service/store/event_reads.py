"""The events of groups for readers: in pages, and as what has come since a snapshot."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """One event. `id` grows, but what commits later may have a lower one."""

    id: int
    at: datetime
    kind: str
    actor: str | None
    group_id: int
    unit_id: int | None
    node: str | None
    attempt: int | None
    generation: int | None
    cause: str | None
    data: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class SeenSnapshot:
    """What a reader has seen so far: valid for the connection that it was read on (W3)."""

    xmax: int
    xip: tuple[int, ...]


_EVENTS = (
    "SELECT e.id, e.at, e.kind, e.actor, e.group_id, e.unit_id, n.name AS node, e.attempt, e.generation,"
    " e.cause, e.data FROM events e LEFT JOIN nodes n ON n.id = e.node_id"
)


def list_events(conn: Connection, group_id: int, *, after: int, limit: int) -> list[EventRow]:
    """At most `limit` events with an id above `after`, in the order of their ids."""
    rows = conn.execute(
        text(f"{_EVENTS} WHERE e.group_id = :group_id AND e.id > :after ORDER BY e.id LIMIT :limit"),
        {"group_id": group_id, "after": after, "limit": limit},
    )
    return _event_rows(rows.all())


def find_last_event_id(conn: Connection, group_id: int) -> int:
    """The highest id of a group's events, 0 if it has none."""
    last = conn.execute(
        text("SELECT coalesce(max(id), 0) FROM events WHERE group_id = :group_id"), {"group_id": group_id}
    ).scalar_one()
    return int(last)


def list_new_events(conn: Connection, group_ids: Collection[int], *, since: SeenSnapshot) -> list[EventRow]:
    """Events of these groups that are visible now and were not in `since`, also those of transactions
    that began before it (W1)."""
    rows = conn.execute(
        text(
            f"{_EVENTS} WHERE e.group_id = ANY(:group_ids)"
            " AND (e.xid >= CAST(CAST(:xmax AS text) AS xid8)"
            " OR e.xid = ANY(CAST(CAST(:xip AS text[]) AS xid8[]))) ORDER BY e.id"
        ),
        {"group_ids": list(group_ids), "xmax": str(since.xmax), "xip": [str(xid) for xid in since.xip]},
    )
    return _event_rows(rows.all())


def read_snapshot(conn: Connection) -> SeenSnapshot:
    """The snapshot of the open REPEATABLE READ transaction."""
    row = conn.execute(
        text(
            "SELECT pg_snapshot_xmax(s)::text AS xmax,"
            " ARRAY(SELECT x::text FROM pg_snapshot_xip(s) AS x) AS xip FROM pg_current_snapshot() AS s"
        )
    ).one()
    return SeenSnapshot(int(row.xmax), tuple(int(xid) for xid in row.xip))


def list_ended_groups(conn: Connection, group_ids: Collection[int]) -> frozenset[int]:
    """Those of these groups of which every unit has ended, or which were dropped since (K1)."""
    rows = conn.execute(
        text(
            "SELECT asked.group_id FROM unnest(CAST(:ids AS bigint[])) AS asked (group_id)"
            " WHERE NOT EXISTS (SELECT FROM units u WHERE u.group_id = asked.group_id"
            " AND u.ended_at IS NULL)"
        ),
        {"ids": list(group_ids)},
    )
    return frozenset(rows.scalars())


def _event_rows(rows: Sequence[Row[Any]]) -> list[EventRow]:
    return [EventRow(**row._mapping) for row in rows]
