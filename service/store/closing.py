"""The end of an attempt: its eviction is decided, and once it is closed its places are given back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import psycopg
from sqlalchemy import Connection, text

from service.domain.status import Cause, Status
from service.store.pipe import Pipe, compact, json_rows


class AttemptOutcome(StrEnum):
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"
    REQUEUED = "Requeued"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictingUnit:
    """A locked unit that is to end its attempt. `grace_seconds` None: its group's own."""

    unit_id: int
    target: Status
    cause: Cause
    message: str
    backoff_seconds: int | None = None
    grace_seconds: float | None = None
    counts_restart: bool = False
    counts_refusal: bool = False
    is_held: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedUnit:
    """A locked unit whose attempt is closed (X1). `ended_at` is the last instant at which it held its
    places; `backoff_until` is for what is queued again."""

    unit_id: int
    outcome: AttemptOutcome
    ended_at: datetime
    gpus: int
    cause: Cause | None = None
    message: str | None = None
    backoff_until: datetime | None = None


def set_evicting(conn: Connection, evictions: Sequence[EvictingUnit], *, now: datetime) -> None:
    """Nothing was handed to a launcher while dispatch is Waiting, so it stays that and is closed
    without one (X1)."""
    ids = [eviction.unit_id for eviction in evictions]
    conn.execute(
        _EVICT_ATTEMPTS,
        {
            "now": now,
            "ids": ids,
            "targets": [eviction.target.value for eviction in evictions],
            "causes": [eviction.cause.value for eviction in evictions],
            "messages": [eviction.message for eviction in evictions],
            "backoffs": [eviction.backoff_seconds for eviction in evictions],
            "graces": [eviction.grace_seconds for eviction in evictions],
        },
    )
    conn.execute(
        _EVICT_UNITS,
        {
            "ids": ids,
            "restarts": [int(eviction.counts_restart) for eviction in evictions],
            "refusals": [int(eviction.counts_refusal) for eviction in evictions],
            "holds": [eviction.is_held for eviction in evictions],
            "now": now,
        },
    )


def set_cancelling(conn: Connection, unit_ids: Sequence[int], *, message: str) -> None:
    """Locked units that are Evicting already are now ended for good. Their grace goes on."""
    ids = list(unit_ids)
    conn.execute(
        text(
            "UPDATE attempts SET evict_target = 'Cancelled', evict_cause = 'Cancelled',"
            " evict_message = :message, evict_backoff_seconds = NULL"
            " WHERE unit_id = ANY(CAST(:ids AS bigint[]))"
        ),
        {"ids": ids, "message": message},
    )
    conn.execute(
        text("UPDATE units SET version = version + 1 WHERE id = ANY(CAST(:ids AS bigint[]))"), {"ids": ids}
    )


def send_releases(
    pipe: Pipe, releases: Sequence[ReleasedUnit], *, now: datetime
) -> psycopg.RawCursor[tuple[int]]:
    """End the holds of locked, closed attempts, note each as one to be charged, and give each unit the
    status that its end leads to. Answers the groups of units that ended for whose end somebody waits."""
    return pipe.run(_RELEASE, json_rows(releases), now)


_EVICT_ATTEMPTS = text("""
    UPDATE attempts a
    SET evict_target = v.target, evict_cause = v.cause, evict_message = v.message,
        evict_backoff_seconds = v.backoff, stop_at = CAST(:now AS timestamptz),
        kill_at = COALESCE(a.kill_at, CAST(:now AS timestamptz)
                  + make_interval(secs => COALESCE(v.grace, g.grace_seconds))),
        dispatch = CASE a.dispatch WHEN 'Waiting' THEN 'Waiting' ELSE 'Closing' END
    FROM unnest(CAST(:ids AS bigint[]), CAST(:targets AS text[]), CAST(:causes AS text[]),
                CAST(:messages AS text[]), CAST(:backoffs AS int[]), CAST(:graces AS float8[]))
         AS v (unit_id, target, cause, message, backoff, grace), groups g
    WHERE a.unit_id = v.unit_id AND g.id = a.group_id
""")

_EVICT_UNITS = text("""
    UPDATE units u
    SET status = 'Evicting', version = version + 1, restarts_used = u.restarts_used + v.restarts,
        refused_dispatches = CASE v.refusals WHEN 0 THEN 0 ELSE u.refused_dispatches + v.refusals END,
        is_held = u.is_held OR v.held,
        held_at = CASE WHEN v.held AND NOT u.is_held THEN CAST(:now AS timestamptz) ELSE u.held_at END
    FROM unnest(CAST(:ids AS bigint[]), CAST(:restarts AS int[]), CAST(:refusals AS int[]),
                CAST(:holds AS boolean[])) AS v (unit_id, restarts, refusals, held)
    WHERE u.id = v.unit_id
""")

#: $1 rows of ReleasedUnit, $2 now.
_RELEASE = compact("""
    WITH v AS MATERIALIZED (
        SELECT * FROM json_to_recordset(CAST($1 AS json))
            AS v (unit_id bigint, outcome text, ended_at timestamptz, gpus int, cause text, message text,
                  backoff_until timestamptz)
    ), gone AS (
        DELETE FROM attempts a USING v WHERE a.unit_id = v.unit_id
        RETURNING a.unit_id, a.attempt, a.group_id, a.queue_id, a.generation, a.dispatches, a.places,
                  a.usage, a.held_before, a.admitted_at, a.running_at, v.ended_at, v.outcome, v.cause,
                  v.gpus
    ), ended AS (
        UPDATE units u
        SET status = CASE v.outcome WHEN 'Requeued' THEN 'Pending' ELSE v.outcome END,
            version = u.version + 1,
            attempt = CASE v.outcome WHEN 'Requeued' THEN u.attempt + 1 ELSE u.attempt END,
            ended_at = CASE v.outcome WHEN 'Requeued' THEN NULL ELSE v.ended_at END,
            admitted_at = CASE v.outcome WHEN 'Requeued' THEN NULL ELSE u.admitted_at END,
            backoff_until = v.backoff_until, cause = v.cause, message = v.message,
            waiting_since = CASE v.outcome WHEN 'Requeued' THEN GREATEST($2, v.backoff_until)
                                           ELSE u.waiting_since END,
            has_never_run = NULLIF(v.outcome = 'Requeued' AND gone.running_at IS NULL, false)
        FROM v JOIN gone ON gone.unit_id = v.unit_id WHERE u.id = v.unit_id
    ), closed AS (
        INSERT INTO closed_attempts (unit_id, attempt, group_id, queue_id, generation, dispatches, places,
                                     usage, held_before, admitted_at, running_at, ended_at, closed_at,
                                     outcome, cause, gpu_seconds)
        SELECT unit_id, attempt, group_id, queue_id, generation, dispatches, places, usage, held_before,
               admitted_at, running_at, ended_at, $2, outcome, cause,
               gpus * GREATEST(0, extract(epoch FROM ended_at - admitted_at))
        FROM gone
        RETURNING unit_id, attempt
    ), uncharged AS (
        INSERT INTO uncharged_attempts (unit_id, attempt) SELECT unit_id, attempt FROM closed
    )
    SELECT DISTINCT v.unit_id >> 20 FROM v
    WHERE v.outcome <> 'Requeued'
      AND EXISTS (SELECT FROM group_dependencies d WHERE d.on_group_id = v.unit_id >> 20 AND d.met_at IS NULL)
""")
