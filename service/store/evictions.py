"""What a plan decides about running units that give way, and the receipts of it: written in the
transaction of its cycle (L2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg

from service.admission.plan import Eviction
from service.domain.events import Kind
from service.domain.preemption import WasteCause
from service.domain.status import LIVE, Status
from service.store.arrays import number_array, text_array
from service.store.receipts import (
    CLAIMANT_AS_TOLD,
    CLAIMANT_IN_WORDS,
    RECEIPTS,
    STILL_WAITS,
    note_receipts,
    receipt_values,
)

#: Of units that are still as the plan knew them: compare and set on status, attempt and target. Who has
#: ended meanwhile, or is ending, is left alone; so is everybody if the claimant does not wait any more.
#: As every eviction: SIGTERM now, the grace of the group, and nothing to stop if no launcher has it (X1).
_EVICT = f"""
WITH v AS MATERIALIZED (
  SELECT * FROM unnest(%(ids)s::bigint[], %(attempts)s::int[]) AS v (unit_id, attempt)
  JOIN {RECEIPTS} USING (unit_id)
), gone AS (
  UPDATE attempts a SET evict_target = 'Pending', evict_cause = 'Preempted',
    evict_message = 'gave way to ' || {CLAIMANT_IN_WORDS},
    evict_backoff_seconds = NULL,
    stop_at = %(now)s::timestamptz,
    kill_at = COALESCE(a.kill_at, %(now)s::timestamptz + make_interval(secs => g.grace_seconds)),
    dispatch = CASE a.dispatch WHEN 'Waiting' THEN 'Waiting' ELSE 'Closing' END
  FROM v JOIN groups c ON c.id = v.claimant_group_id JOIN units w ON w.id = v.claimant_id, units u, groups g
  WHERE a.unit_id = v.unit_id AND a.attempt = v.attempt AND a.evict_target IS NULL
    AND u.id = v.unit_id AND u.status = ANY(%(live)s::text[]) AND g.id = a.group_id
    AND {STILL_WAITS}
  RETURNING a.unit_id, a.attempt, a.generation, a.group_id, a.queue_id, a.pool_id, a.kill_at,
    a.evict_message, {CLAIMANT_AS_TOLD} AS claimant, c.queue_id AS claimant_queue_id
), evicting AS (
  UPDATE units u SET status = 'Evicting', version = u.version + 1,
    preempted_at = ARRAY(SELECT at FROM unnest(u.preempted_at) AS at
                         WHERE at > %(now)s::timestamptz - interval '1 day') || %(now)s::timestamptz
  FROM gone WHERE u.id = gone.unit_id
  RETURNING u.id, u.preempted_at
), told AS (
  INSERT INTO events (is_feed, at, kind, group_id, unit_id, attempt, generation, cause, actor, data)
  SELECT false, %(now)s::timestamptz, %(kind)s, group_id, unit_id, attempt, generation, 'Preempted', 'muster',
    jsonb_strip_nulls(jsonb_build_object('target', 'Pending', 'message', evict_message,
                      'claimant', claimant, 'entitlement', v.entitlement))
  FROM gone JOIN v USING (unit_id, attempt)
), noted AS ({
    note_receipts(
        "(SELECT *, 0 AS revision, NULL::int AS members FROM gone) gone JOIN v USING (unit_id, attempt)"
    )
})
SELECT gone.unit_id, gone.pool_id, gone.kill_at, evicting.preempted_at
FROM gone JOIN evicting ON evicting.id = gone.unit_id
"""  # noqa: S608
#: `started`: a unit that the plan admits from the row of the claimant, if the admission came to be.
_START = """
UPDATE preemptions p SET outcome = 'Started', outcome_at = %(now)s::timestamptz
FROM unnest(%(rows)s::bigint[], %(started)s::bigint[]) AS s (row_id, unit_id)
WHERE p.claimant_unit_id = s.row_id AND p.outcome IS NULL
  AND EXISTS (SELECT FROM attempts a WHERE a.unit_id = s.unit_id AND a.admitted_at = %(now)s::timestamptz)
"""
_WASTE = """
UPDATE preemptions p SET outcome = 'Wasted', outcome_at = %(now)s::timestamptz, outcome_cause = w.cause
FROM unnest(%(rows)s::bigint[], %(causes)s::text[]) AS w (row_id, cause)
WHERE p.claimant_unit_id = w.row_id AND p.outcome IS NULL
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictedUnit:
    """A unit that gives way from now on; its members are killed at `evicting_until`."""

    unit_id: int
    pool_id: int
    evicting_until: datetime
    preempted_at: tuple[datetime, ...]


def evict(
    driver: psycopg.Connection[Any], evictions: Sequence[Eviction], *, now: datetime
) -> psycopg.Cursor[Any] | None:
    """In the transaction, and the pipeline, of a cycle, whose fence is checked by the caller. `read_evicted`
    tells of it once the pipeline is closed."""
    if not evictions:
        return None
    rows = sorted(evictions, key=lambda eviction: eviction.unit_id)
    return driver.execute(
        _EVICT,
        {
            "now": now,
            "kind": Kind.EVICTING.value,
            "live": text_array(sorted(status.value for status in LIVE - {Status.EVICTING})),
            "ids": number_array(row.unit_id for row in rows),
            "attempts": number_array(row.attempt for row in rows),
            **receipt_values({row.unit_id: row.receipt for row in rows}),
        },
    )


def read_evicted(evicted: psycopg.Cursor[Any] | None) -> tuple[EvictedUnit, ...]:
    """Those that give way; the others had ended, or their claimant had."""
    if evicted is None:
        return ()
    return tuple(
        EvictedUnit(unit_id=row[0], pool_id=row[1], evicting_until=row[2], preempted_at=tuple(row[3]))
        for row in sorted(evicted.fetchall())
    )


def settle_preemptions(
    driver: psycopg.Connection[Any],
    *,
    started: Mapping[int, int],
    wasted: Mapping[int, WasteCause],
    now: datetime,
) -> None:
    """What became of the preemptions for these waiting rows, after the statement that admits. `started`: by
    row a unit that is admitted from it."""
    if started:
        rows = sorted(started.items())
        values = {
            "rows": number_array(row for row, _ in rows),
            "started": number_array(unit for _, unit in rows),
        }
        driver.execute(_START, {"now": now, **values})
    if wasted:
        causes = sorted(wasted.items())
        driver.execute(
            _WASTE,
            {
                "now": now,
                "rows": number_array(row for row, _ in causes),
                "causes": text_array(cause.value for _, cause in causes),
            },
        )
