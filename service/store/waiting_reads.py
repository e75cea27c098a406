"""What of a group waits, and what keeps it back that is its own."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from service.domain.dependency import When


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingFacts:
    """Taken over the group's waiting rows. `is_held`: all of them are; `backoff_until`: all that are
    not held wait for it; `refused_dispatches` and `message` are those of the first row. `not_before_at` only
    while it is to come. `open_dependencies`: so many other groups have to end first. `since`: since when the
    first row waits, None if none does."""

    rows: int
    is_held: bool
    backoff_until: datetime | None
    refused_dispatches: int
    message: str | None
    is_queue_stopped: bool
    not_before_at: datetime | None
    open_dependencies: int
    since: datetime | None

    @property
    def is_eligible(self) -> bool:
        """Whether something of the group that waits may be admitted now, if it finds its places."""
        is_kept = self.is_held or self.is_queue_stopped or bool(self.open_dependencies)
        return not (is_kept or self.backoff_until or self.not_before_at)


def get_waiting_facts(conn: Connection, group_id: int, *, now: datetime) -> WaitingFacts:
    """With `rows` 0 nothing waits."""
    row = conn.execute(
        text(
            "SELECT count(*) AS rows, coalesce(bool_and(u.is_held), false) AS is_held,"
            " coalesce(bool_and(coalesce(u.backoff_until > :now, false)) FILTER (WHERE NOT u.is_held), false)"
            " AS is_backing_off, min(u.backoff_until) FILTER (WHERE u.backoff_until > :now) AS backoff_until,"
            " (array_agg(u.refused_dispatches ORDER BY u.first_index))[1] AS refused_dispatches,"
            " (array_agg(u.message ORDER BY u.first_index))[1] AS message,"
            " bool_or(q.stop <> 'none') AS is_queue_stopped,"
            " max(g.not_before_at) FILTER (WHERE g.not_before_at > :now) AS not_before_at,"
            " max(u.open_dependencies) AS open_dependencies,"
            " (array_agg(coalesce(u.waiting_since, g.submitted_at) ORDER BY u.first_index))[1] AS since"
            " FROM units u JOIN groups g ON g.id = u.group_id JOIN queues q ON q.id = g.queue_id"
            " WHERE u.group_id = :group_id AND u.status = 'Pending' AND u.ended_at IS NULL"
        ),
        {"group_id": group_id, "now": now},
    ).one()
    return WaitingFacts(
        rows=row.rows,
        is_held=row.is_held,
        backoff_until=row.backoff_until if row.is_backing_off else None,
        refused_dispatches=row.refused_dispatches or 0,
        message=row.message,
        is_queue_stopped=bool(row.is_queue_stopped),
        not_before_at=row.not_before_at,
        open_dependencies=row.open_dependencies or 0,
        since=row.since,
    )


def list_open_dependencies(conn: Connection, group_id: int) -> dict[When, tuple[str, ...]]:
    """The groups that have not ended as this one waits for, by how they have to."""
    rows = conn.execute(
        text(
            "SELECT d.condition, array_agg(CAST(g.public_id AS text) ORDER BY g.id) AS groups"
            " FROM group_dependencies d JOIN groups g ON g.id = d.on_group_id"
            " WHERE d.group_id = :group_id AND d.met_at IS NULL GROUP BY d.condition"
        ),
        {"group_id": group_id},
    )
    found = {When(row.condition): tuple(row.groups) for row in rows}
    return {when: found[when] for when in When if when in found}


def is_below_its_size(conn: Connection, group_id: int) -> bool:
    """Whether it runs, may grow, and has not all of its members."""
    found = conn.execute(
        text(
            "SELECT FROM attempts a JOIN groups g ON g.id = a.group_id"
            " WHERE a.unit_id = CAST(:group_id AS bigint) << 20 AND a.is_resizable"
            " AND jsonb_array_length(a.places) < g.member_count"
        ),
        {"group_id": group_id},
    ).first()
    return found is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedEnd:
    """A unit that failed because its starts were refused: how often in a row, and the last message."""

    refusals: int
    message: str


def find_refused_end(conn: Connection, group_id: int) -> RefusedEnd | None:
    """The first unit of the group whose end was a refused start, None if no unit ended so. An eviction
    for another reason sets the count back, so what is left of it is what ended the unit."""
    row = conn.execute(
        text(
            "SELECT refused_dispatches, message FROM units"
            " WHERE group_id = :group_id AND status = 'Failed' AND refused_dispatches > 0"
            " ORDER BY id LIMIT 1"
        ),
        {"group_id": group_id},
    ).one_or_none()
    return None if row is None else RefusedEnd(refusals=row.refused_dispatches, message=row.message or "")


def list_visible_holders(
    conn: Connection, public_ids: Collection[str], *, tenant: str, owner: str
) -> frozenset[str]:
    """Those of these groups that belong to this user."""
    rows = conn.execute(
        text(
            "SELECT public_id FROM groups WHERE public_id = ANY(CAST(:ids AS uuid[]))"
            " AND tenant = :tenant AND owner = :owner"
        ),
        {"ids": list(public_ids), "tenant": tenant, "owner": owner},
    )
    return frozenset(str(public_id) for public_id in rows.scalars())
