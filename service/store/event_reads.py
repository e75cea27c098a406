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
    #: The highest id of an event that was visible.
    last_id: int

    def is_like(self, other: SeenSnapshot | None) -> bool:
        """Nothing has begun or ended in between."""
        return other is not None and (self.xmax, self.xip) == (other.xmax, other.xip)


_EVENTS = (
    "SELECT e.id, e.at, e.kind, e.actor, e.group_id, e.unit_id, n.name AS node, e.attempt, e.generation,"
    " e.cause, e.data FROM events e LEFT JOIN nodes n ON n.id = e.node_id"
)

_PAGES = text(
    "SELECT e.*, w.id AS place"  # noqa: S608
    " FROM unnest(CAST(:groups AS bigint[]), CAST(:ids AS bigint[])) AS w (group_id, id) CROSS JOIN LATERAL"
    f" ({_EVENTS} WHERE e.group_id = w.group_id AND e.id > w.id ORDER BY e.id LIMIT :limit) AS e"
    " ORDER BY e.id"
)
_NEW = text(
    f"{_EVENTS} WHERE e.group_id = ANY(:group_ids) AND e.id > :after"
    " AND (e.xid >= CAST(CAST(:xmax AS text) AS xid8)"
    " OR e.xid = ANY(CAST(CAST(:xip AS text[]) AS xid8[]))) ORDER BY e.id"
)
_SNAPSHOT = text(
    "SELECT pg_snapshot_xmax(s)::text AS xmax, ARRAY(SELECT x::text FROM pg_snapshot_xip(s) AS x) AS xip,"
    " (SELECT coalesce(max(id), 0) FROM events) AS last_id FROM pg_current_snapshot() AS s"
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


def list_event_pages(
    conn: Connection, places: Collection[tuple[int, int]], *, limit: int
) -> dict[tuple[int, int], list[EventRow]]:
    """For each (group, id) at most `limit` events of the group with a higher id, in the order of their
    ids. Places behind which there is nothing are left out."""
    if not places:
        return {}
    groups, ids = zip(*places, strict=True)
    rows = conn.execute(_PAGES, {"groups": list(groups), "ids": list(ids), "limit": limit})
    pages: dict[tuple[int, int], list[EventRow]] = {}
    for row in rows:
        values = dict(row._mapping)
        pages.setdefault((values["group_id"], values.pop("place")), []).append(EventRow(**values))
    return pages


def list_new_events(
    conn: Connection, group_ids: Collection[int], *, since: SeenSnapshot, after: int = 0
) -> list[EventRow]:
    """Events of these groups that are visible now and were not in `since`, also those of transactions
    that began before it (W1). Those up to the id `after` were all visible long before."""
    rows = conn.execute(
        _NEW,
        {
            "group_ids": list(group_ids),
            "after": after,
            "xmax": str(since.xmax),
            "xip": [str(xid) for xid in since.xip],
        },
    )
    return _event_rows(rows.all())


def read_snapshot(conn: Connection) -> SeenSnapshot:
    """The snapshot of the open REPEATABLE READ transaction."""
    row = conn.execute(_SNAPSHOT).one()
    return SeenSnapshot(int(row.xmax), tuple(int(xid) for xid in row.xip), row.last_id)


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
