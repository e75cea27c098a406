"""Retention: what ended long ago is dropped, a little at a time (K1).

Nobody reads what is dropped: an ended group is in no World (W2), its events are older than any
snapshot that a leader or a stream keeps, and lists go on behind the place that their cursor names.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, Engine

from service.store.retention import (
    OldGroup,
    drop_events_of_no_group,
    drop_groups,
    drop_keys,
    find_named_in_after,
    list_groups_by_age,
    lock_droppable,
)

#: A submit key answers a repetition for at least so long (K1).
KEY_AGE = timedelta(days=7)
#: One transaction looks at so many groups, and at so many members of them if that are fewer groups.
MOST_GROUPS, MOST_MEMBERS = 500, 5_000
_MOST_EVENTS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """One step. `last_id`: the next one starts behind it; None if there is nothing older to look at."""

    groups: int
    keys: int
    last_id: int | None


def drop_ended_groups(engine: Engine, *, after_id: int, kept: timedelta, now: datetime) -> Dropped:
    """One step through the groups behind `after_id`, in a transaction of its own: those that ended more
    than `kept` ago are dropped. A step that is cut off has done nothing, and is made again."""
    ended_before, keys_before = now - kept, now - KEY_AGE
    with engine.begin() as conn:
        looked_at = _next_groups(conn, after_id)
        # What was submitted later cannot have ended before. One alone may have come from a wrong clock.
        ids = [group.id for group in looked_at if group.submitted_at < ended_before]
        if not ids:
            return Dropped(groups=0, keys=0, last_id=None)
        droppable = lock_droppable(conn, ids, ended_before=ended_before, keys_before=keys_before)
        for named in find_named_in_after(conn, droppable.keys()):
            del droppable[named]
        drop_groups(conn, list(droppable))
        keys = drop_keys(conn, sorted(set(droppable.values())), keys_before=keys_before)
    return Dropped(groups=len(droppable), keys=keys, last_id=looked_at[-1].id)


def drop_old_events(engine: Engine, *, kept: timedelta, now: datetime) -> int:
    """Drop some of the events of nodes and queues, which end with no group; how many."""
    with engine.begin() as conn:
        return drop_events_of_no_group(conn, before=now - kept, limit=_MOST_EVENTS)


def _next_groups(conn: Connection, after_id: int) -> list[OldGroup]:
    found: list[OldGroup] = []
    members = 0
    for group in list_groups_by_age(conn, after_id=after_id, limit=MOST_GROUPS):
        members += group.member_count
        if found and members > MOST_MEMBERS:
            break
        found.append(group)
    return found
