"""When the guard of a group that waits runs out."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Connection

from service.admission.pauses import Clock, clock_of
from service.store.guard_pauses import find_guarded, read_guard_pauses


def find_guard(conn: Connection, group_id: int, *, guard_seconds: float) -> Clock | None:
    """By the pauses that the leader has noted; of several that wait, of the first. None if nothing waits."""
    row = find_guarded(conn, group_id)
    if row is None:
        return None
    pauses = read_guard_pauses(conn, row.queue_id).get(row.queue_id, ())
    guard = timedelta(seconds=guard_seconds)
    return clock_of(pauses, row.shape_id, row.unit_id, since=row.since, guard=guard)
