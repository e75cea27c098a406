"""Groups that ended long ago are dropped, with all that hangs on them (K1)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text


@dataclass(frozen=True, slots=True, kw_only=True)
class OldGroup:
    id: int
    submitted_at: datetime
    member_count: int


def list_groups_by_age(conn: Connection, *, after_id: int, limit: int) -> list[OldGroup]:
    """Groups with an id above `after_id`, in the order of their ids: that of their submission, give or
    take what is submitted at once."""
    rows = conn.execute(
        text(
            "SELECT id, submitted_at, member_count FROM groups WHERE id > :after_id ORDER BY id LIMIT :limit"
        ),
        {"after_id": after_id, "limit": limit},
    )
    return [OldGroup(**row._mapping) for row in rows]


def lock_droppable(
    conn: Connection, group_ids: Sequence[int], *, ended_before: datetime, keys_before: datetime
) -> dict[int, datetime]:
    """Those of these groups that ended before `ended_before`, are closed and charged, and that no submit
    key keeps that is younger than `keys_before`: locked, with the instants of their submission. What
    somebody else has locked is left for another time."""
    rows = conn.execute(
        _DROPPABLE,
        {"ids": list(group_ids), "ended_before": ended_before, "keys_before": keys_before},
    )
    return {row.id: row.submitted_at for row in rows}


def find_named_in_after(conn: Connection, group_ids: Collection[int]) -> frozenset[int]:
    """Those of these locked groups that a group which has not ended names: in a later statement than the
    one that locks them, for to name one takes a lock on it as well."""
    rows = conn.execute(_NAMED, {"ids": list(group_ids)})
    return frozenset(rows.scalars())


def drop_groups(conn: Connection, group_ids: Sequence[int]) -> None:
    """Drop locked groups. Their specs, units, ends of members and closed attempts go with them; of a
    unit that has a live attempt the database says no."""
    ids = {"ids": list(group_ids)}
    conn.execute(text("DELETE FROM events WHERE group_id = ANY(CAST(:ids AS bigint[]))"), ids)
    conn.execute(text("DELETE FROM group_specs WHERE group_id = ANY(CAST(:ids AS bigint[]))"), ids)
    conn.execute(text("DELETE FROM groups WHERE id = ANY(CAST(:ids AS bigint[]))"), ids)


def drop_keys(conn: Connection, submitted_at: Sequence[datetime], *, keys_before: datetime) -> int:
    """Drop the submit keys of these instants that stand for no group any more; how many."""
    return conn.execute(_DROP_KEYS, {"instants": list(submitted_at), "keys_before": keys_before}).rowcount


def drop_events_of_no_group(conn: Connection, *, before: datetime, limit: int) -> int:
    """Drop what happened to nodes, queues and the like before that; how many."""
    return conn.execute(_DROP_EVENTS, {"before": before, "limit": limit}).rowcount


#: K1. The first part is the end of the group: every unit ended, none has a dispatch row, each attempt that
#: ever held places is closed, and was charged. A submit key has the instant of its groups.
_DROPPABLE = text("""
    SELECT g.id, g.submitted_at FROM groups g
    WHERE g.id = ANY(CAST(:ids AS bigint[]))
      AND NOT EXISTS (
        SELECT FROM units u
        WHERE u.group_id = g.id AND (
          u.ended_at IS NULL OR u.ended_at >= :ended_before
          OR EXISTS (SELECT FROM attempts a WHERE a.unit_id = u.id)
          OR EXISTS (SELECT FROM uncharged_attempts x WHERE x.unit_id = u.id)
          OR u.attempt - (CASE WHEN u.admitted_at IS NULL THEN 1 ELSE 0 END)
             > (SELECT count(*) FROM closed_attempts c WHERE c.unit_id = u.id)))
      AND NOT EXISTS (
        SELECT FROM idempotency_keys k
        WHERE k.created_at = g.submitted_at AND k.created_at >= :keys_before
          AND g.public_id = ANY(k.group_ids))
    ORDER BY g.id
    FOR UPDATE SKIP LOCKED
""")

_NAMED = text("""
    SELECT g.id FROM unnest(CAST(:ids AS bigint[])) AS g (id)
    WHERE EXISTS (
      SELECT FROM group_dependencies d JOIN units u ON u.group_id = d.group_id
      WHERE d.on_group_id = g.id AND u.ended_at IS NULL)
""")

_DROP_KEYS = text("""
    DELETE FROM idempotency_keys k
    WHERE k.created_at = ANY(CAST(:instants AS timestamptz[])) AND k.created_at < :keys_before
      AND NOT EXISTS (SELECT FROM groups g WHERE g.public_id = ANY(k.group_ids))
""")

_DROP_EVENTS = text("""
    DELETE FROM events WHERE id = ANY(ARRAY(
      SELECT id FROM (
        SELECT id, at FROM events WHERE group_id IS NULL ORDER BY id LIMIT :limit
      ) oldest WHERE at < :before))
""")
