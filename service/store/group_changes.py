"""Groups that are changed after their submission."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec
from psycopg.types.json import Jsonb
from sqlalchemy import Connection, text

from service.domain.group_change import GroupChange
from service.domain.node import Place
from service.domain.queue import QueuePolicy
from service.store.places import places_of


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPlaces:
    """What a unit of the group holds, and since when: its time limit runs from there."""

    pool_id: int
    admitted_at: datetime
    places: tuple[Place, ...]


def get_queue_policy(conn: Connection, queue_id: int) -> QueuePolicy:
    policy = conn.execute(text("SELECT policy FROM queues WHERE id = :id"), {"id": queue_id}).scalar_one()
    return msgspec.convert(policy, QueuePolicy)


def list_held_places(conn: Connection, unit_ids: Sequence[int]) -> list[HeldPlaces]:
    rows = conn.execute(
        text(
            "SELECT pool_id, admitted_at, places FROM attempts WHERE unit_id = ANY(CAST(:ids AS bigint[]))"
            " ORDER BY unit_id"
        ),
        {"ids": list(unit_ids)},
    )
    return [
        HeldPlaces(pool_id=row.pool_id, admitted_at=row.admitted_at, places=places_of(row.places))
        for row in rows
    ]


def update_group(conn: Connection, group_id: int, *, change: GroupChange, unit_ids: Sequence[int]) -> None:
    """Change a locked group, and raise the versions of those of its units that have not ended (W4). A time
    limit runs from admission, whenever it was set."""
    values = {
        "id": group_id,
        "priority": change.priority,
        "labels": None if change.labels is None else Jsonb(dict(change.labels)),
        "has_limit": change.time_limit is not None,
        "limit": change.time_limit.seconds if change.time_limit else None,
        "units": list(unit_ids),
    }
    conn.execute(_UPDATE_GROUP, values)
    conn.execute(_RAISE_VERSIONS, values)
    if change.time_limit is not None:
        conn.execute(_MOVE_LIMITS, values)


_UPDATE_GROUP = text("""
    UPDATE groups SET priority = COALESCE(:priority, priority), labels = COALESCE(:labels, labels),
        time_limit_seconds = CASE WHEN :has_limit THEN CAST(:limit AS int) ELSE time_limit_seconds END
    WHERE id = :id
""")
_RAISE_VERSIONS = text("UPDATE units SET version = version + 1 WHERE id = ANY(CAST(:units AS bigint[]))")
_MOVE_LIMITS = text("""
    UPDATE attempts SET time_limit_at = admitted_at + make_interval(secs => CAST(:limit AS int))
    WHERE unit_id = ANY(CAST(:units AS bigint[]))
""")
