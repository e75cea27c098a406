"""What a dispatcher reads to see what there is to do, and its claim of what waits for the launcher."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from service.domain.status import Cause, Status
from service.store.arrays import number_array
from service.store.attempts import LiveAttempt
from service.store.pipe import compact, json_rows, run_alone
from service.store.places import places_of
from service.store.specs import StoredSpec, decode_spec


def load_work(
    conn: Connection, pool_id: int, *, now: datetime, changed: Collection[int], most_waiting: int | None
) -> list[LiveAttempt]:
    """Attempts with which something may have to be done, in the order of their ids: of the live ones of
    a pool those that are being closed or evicted, of which a deadline is over, or whose unit is among
    `changed`; and of those that wait for their launcher, or were claimed and never reported, the first
    `most_waiting`, or all. In a transaction of its own."""
    rows = run_alone(conn, _LOAD, pool_id, now, False, number_array(changed), most_waiting)
    return [live_attempt(row) for row in rows]


def load_attempts(conn: Connection, pool_id: int, *, now: datetime) -> list[LiveAttempt]:
    """All live attempts of a pool. In a transaction of its own."""
    return [live_attempt(row) for row in run_alone(conn, _LOAD, pool_id, now, True, number_array(()), None)]


class Due(NamedTuple):
    """The next instant at which something falls due in a pool that nobody rings for, and the next at which
    a drain does."""

    at: datetime | None
    drain_at: datetime | None


def find_due(conn: Connection, pool_id: int, *, now: datetime, patience_seconds: float) -> Due:
    """After `now`. In a transaction of its own."""
    return Due(*run_alone(conn, _DUE, pool_id, now, patience_seconds).fetchall()[0])


@dataclass(frozen=True, slots=True)
class LiveKey:
    """What is alive in the books, in short. `member_count`: how many members the launcher has taken;
    `members` are their numbers, if they were ever resized."""

    unit_id: int
    attempt: int
    generation: int
    dispatch: str
    member_count: int
    members: frozenset[int] | None = None

    def lacks_any_of(self, seen: Collection[int]) -> bool:
        """Whether the launcher does not know a member any more."""
        if self.members is None:
            return len(seen) < self.member_count
        return not self.members <= set(seen)


def load_keys(conn: Connection, pool_id: int) -> list[LiveKey]:
    """Every live attempt of a pool, in short."""
    rows = conn.execute(
        text(
            "SELECT unit_id, attempt, generation, dispatch, jsonb_array_length(places),"
            " CASE WHEN revision > 1 THEN ARRAY(SELECT (place ->> 0)::int FROM jsonb_array_elements(places)"
            " AS p (place) WHERE (place ->> 0)::int <> ALL(COALESCE(adding || dropping, adding, dropping,"
            " '{}'))) END FROM attempts WHERE pool_id = :pool_id"
        ),
        {"pool_id": pool_id},
    )
    return [
        LiveKey(unit, attempt, generation, dispatch, count, None if members is None else frozenset(members))
        for unit, attempt, generation, dispatch, count, members in rows
    ]


def claim(
    conn: Connection, pool_id: int, *, epoch: int, keys: Sequence[tuple[int, int, int]], now: datetime
) -> list[tuple[LiveAttempt, StoredSpec]] | None:
    """Those of these (unit, attempt, generation) that still wait, or have members that do, go to the
    launcher now; with what their members run. None if the epoch is over (D1); then nothing is written.

    What was claimed by a dispatcher that never said how the launch went is claimed anew, and counts no
    second dispatch. A transaction of its own, in one round trip: locks are held for as short as can be.
    """
    rows = json_rows(
        {"unit_id": unit_id, "attempt": attempt, "generation": generation}
        for unit_id, attempt, generation in sorted(keys)
    )
    found = run_alone(conn, _CLAIM, pool_id, epoch, now, rows).fetchall()
    if not found:
        return None
    width = len(_FIELDS)
    return [
        (live_attempt(row[:width]), decode_spec(row[width], row[width + 1]))
        for row in found
        if row[0] is not None
    ]


def live_attempt(row: Sequence[Any]) -> LiveAttempt:
    """One row of `_COLUMNS`."""
    values = dict(zip(_FIELDS, row, strict=True))
    values["status"] = Status(values["status"])
    values["places"] = places_of(values["places"])
    values["failed_nodes"] = tuple(values["failed_nodes"])
    values["adding"], values["dropping"] = tuple(values["adding"] or ()), tuple(values["dropping"] or ())
    if values["evict_target"] is not None:
        values["evict_target"] = Status(values["evict_target"])
    if values["evict_cause"] is not None:
        values["evict_cause"] = Cause(values["evict_cause"])
    return LiveAttempt(**values)


#: The columns of `_COLUMNS`, in its order.
_FIELDS = (
    "unit_id", "group_id", "attempt", "generation", "dispatch", "places", "admitted_at",
    "infrastructure_losses", "start_deadline_at", "time_limit_at", "seat_deadline_at", "stop_at", "kill_at",
    "evict_target", "evict_cause", "evict_message", "evict_backoff_seconds",
    "revision", "is_resizable", "adding", "dropping", "drop_kill_at",
    "version", "status", "restarts_used", "refused_dispatches", "failed_nodes",
    "group_name", "is_gang", "on_member_loss", "max_restarts", "backoff_seconds", "seat_timeout_seconds",
    "grace_seconds",
)  # fmt: skip

_OF_ATTEMPT = """
    a.unit_id, a.group_id, a.attempt, a.generation, a.dispatch, a.places, a.admitted_at,
    a.infrastructure_losses, a.start_deadline_at, a.time_limit_at, a.seat_deadline_at, a.stop_at, a.kill_at,
    a.evict_target, a.evict_cause, a.evict_message, a.evict_backoff_seconds,
    a.revision, a.is_resizable, a.adding, a.dropping, a.drop_kill_at
"""
_COLUMNS = f"""
    {_OF_ATTEMPT},
    u.version, u.status, u.restarts_used, u.refused_dispatches, u.failed_nodes,
    g.name, g.scheduling = 'gang', g.on_member_loss, g.max_restarts, g.backoff_seconds,
    g.seat_timeout_seconds, g.grace_seconds
"""

#: $1 pool, $2 now, $3 all of them, $4 changed units, $5 how many of those that wait.
_LOAD = compact(
    "SELECT",
    _COLUMNS,
    """
    FROM attempts a JOIN units u ON u.id = a.unit_id JOIN groups g ON g.id = a.group_id
    WHERE a.pool_id = $1
      AND ($3 OR a.dispatch = 'Closing' OR a.evict_target IS NOT NULL
           OR a.adding IS NOT NULL OR a.dropping IS NOT NULL
           OR LEAST(a.start_deadline_at, a.time_limit_at, a.seat_deadline_at) <= $2
           OR a.unit_id IN (SELECT unnest(CAST($4 AS bigint[])))
           OR (a.dispatch IN ('Waiting', 'Claimed') AND a.unit_id <= (
                   SELECT max(unit_id) FROM (
                       SELECT unit_id FROM attempts
                       WHERE pool_id = $1 AND dispatch IN ('Waiting', 'Claimed') AND evict_target IS NULL
                       ORDER BY unit_id LIMIT CAST($5 AS bigint)) AS first)))
    ORDER BY a.unit_id
    """,
)

#: $1 pool, $2 now, $3 patience in seconds.
_DUE = compact("""
    SELECT LEAST(of_attempts.at, drain.at), drain.at
    FROM (SELECT LEAST(
            min(start_deadline_at) FILTER (WHERE start_deadline_at > $2),
            min(time_limit_at) FILTER (WHERE time_limit_at > $2),
            min(seat_deadline_at) FILTER (WHERE seat_deadline_at > $2),
            min(kill_at) FILTER (WHERE kill_at > $2),
            min(drop_kill_at) FILTER (WHERE drop_kill_at > $2),
            min(kill_at + make_interval(secs => $3)) FILTER (WHERE kill_at + make_interval(secs => $3) > $2))
          FROM attempts WHERE pool_id = $1) AS of_attempts (at),
         (SELECT min(drain_at) FROM nodes WHERE pool_id = $1 AND drain_at > $2) AS drain (at)
""")

#: $1 pool, $2 epoch, $3 now, $4 keys. One row without an attempt says that the epoch is right.
_CLAIM = compact(
    """
    WITH fence AS MATERIALIZED (
        SELECT pool_id FROM dispatcher_leases WHERE pool_id = $1 AND epoch = $2 FOR SHARE
    ), a AS (
        UPDATE attempts a
        SET dispatches = a.dispatches + (a.dispatch = 'Waiting')::int, claimed_at = $3,
            dispatch = CASE a.dispatch WHEN 'Launched' THEN a.dispatch ELSE 'Claimed' END
        FROM fence, json_to_recordset(CAST($4 AS json)) AS v (unit_id bigint, attempt int, generation int)
        WHERE a.unit_id = v.unit_id AND a.attempt = v.attempt AND a.generation = v.generation
          AND a.pool_id = fence.pool_id AND a.evict_target IS NULL
          AND (a.dispatch IN ('Waiting', 'Claimed') OR (a.dispatch = 'Launched' AND a.adding IS NOT NULL))
        RETURNING
    """,
    _OF_ATTEMPT,
    ") SELECT",
    _COLUMNS,
    """
    , s.spec::text, s.secrets
    FROM fence LEFT JOIN (
        a JOIN units u ON u.id = a.unit_id JOIN groups g ON g.id = a.group_id
        JOIN group_specs s ON s.group_id = a.group_id) ON true
    ORDER BY a.unit_id
    """,
)
