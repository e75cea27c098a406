"""What must be true of evictions, claims and usage once the faults are over and all groups have ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import class_row, dict_row

from tests.e2e.stacks import wait_for

#: The ticker charges each second, once it is there again.
_CHARGE_SECONDS = 20.0
_CYCLE_SECONDS = 10.0

#: Of each attempt of the run that was preempted, or of which there is a receipt: how it was closed, how often
#: its eviction was told, and whether its beneficiary began at the instant that the receipt names.
_RECEIPTS = """
    SELECT unit_id, attempt, c.outcome AS closed_as, c.cause, p.outcome, p.unit_id IS NOT NULL AS is_noted,
           (SELECT count(*) FROM events e WHERE e.unit_id = c.unit_id AND e.attempt = c.attempt
            AND e.kind = 'Evicting' AND e.cause = 'Preempted') AS told,
           EXISTS (SELECT FROM closed_attempts b WHERE b.group_id = p.claimant_group_id
                   AND b.admitted_at = p.outcome_at) AS has_begun
    FROM closed_attempts c
    FULL JOIN (SELECT * FROM preemptions WHERE revision = 0) AS p USING (unit_id, attempt)
    WHERE (c.cause = 'Preempted' OR p.unit_id IS NOT NULL)
      AND COALESCE(c.group_id, p.group_id) IN (SELECT id FROM groups WHERE labels->>'run' = %s)
"""
#: Of each time that members were given up, the same.
_SURPLUS = """
    SELECT unit_id, attempt, revision, p.outcome, p.unit_id IS NOT NULL AS is_noted, count(e.id) AS told,
           EXISTS (SELECT FROM closed_attempts b WHERE b.group_id = p.claimant_group_id
                   AND b.admitted_at = p.outcome_at) AS has_begun
    FROM (SELECT id, unit_id, attempt, group_id, (data ->> 'revision')::int AS revision FROM events
          WHERE kind = 'Resized' AND (data ->> 'dropped')::int > 0) AS e
    FULL JOIN (SELECT * FROM preemptions WHERE revision > 0) AS p USING (unit_id, attempt, revision)
    WHERE COALESCE(e.group_id, p.group_id) IN (SELECT id FROM groups WHERE labels->>'run' = %s)
    GROUP BY unit_id, attempt, revision, p.outcome, p.unit_id, p.claimant_group_id, p.outcome_at
"""
#: A claim is no hold, and not even that of who has ended.
_CLAIMS = """
    SELECT c.unit_id FROM claims c JOIN units u ON u.id = c.unit_id JOIN groups g ON g.id = u.group_id
    WHERE g.labels->>'run' = %s
"""
#: What all closed attempts held, reckoned from the books, beside what the ledger of usage says.
_USAGE = """
    WITH held AS (
        SELECT queue_id, group_id, usage, ended_at,
               COALESCE((held_before -> -1 ->> 'ended_at')::timestamptz, admitted_at) AS began_at
        FROM closed_attempts
        UNION ALL
        SELECT queue_id, group_id, h -> 'usage', (h ->> 'ended_at')::timestamptz,
               (h ->> 'began_at')::timestamptz
        FROM closed_attempts, jsonb_array_elements(held_before) AS h
    ), wanted AS (
        SELECT h.queue_id, g.tenant, g.owner, u.key AS resource,
               sum(u.value::float8 * GREATEST(0, extract(epoch FROM h.ended_at - h.began_at))) AS seconds
        FROM held h JOIN groups g ON g.id = h.group_id, jsonb_each_text(h.usage) AS u
        WHERE u.value <> '0' GROUP BY 1, 2, 3, 4
    )
    SELECT queue_id, tenant, owner, resource, w.seconds, x.held_seconds
    FROM wanted w FULL JOIN usage x USING (queue_id, tenant, owner, resource)
    WHERE abs(w.seconds - x.held_seconds) < 1e-6 * GREATEST(1, w.seconds) IS NOT TRUE
"""
#: The same of GPUs, of which each member has one, reckoned from what was told of each attempt's changes of
#: size, back from how many members it had in the end.
_TOLD = """
    WITH changes AS (
        SELECT unit_id, attempt, at, (data ->> 'added')::int AS members FROM events WHERE kind = 'Resized'
        UNION ALL
        SELECT unit_id, attempt, at, -COALESCE((data ->> 'stopped')::int, 0) FROM events
        WHERE kind = 'ResizeDone'
    ), told AS (
        SELECT c.unit_id, c.attempt, c.queue_id, c.group_id,
               jsonb_array_length(c.places)
               * extract(epoch FROM GREATEST(c.ended_at, c.admitted_at, max(h.at)) - c.admitted_at)
               - COALESCE(sum(h.members * extract(epoch FROM h.at - c.admitted_at)), 0) AS seconds
        FROM closed_attempts c LEFT JOIN changes h USING (unit_id, attempt) GROUP BY c.unit_id, c.attempt
    ), wanted AS (
        SELECT t.queue_id, g.tenant, g.owner, sum(t.seconds) AS seconds
        FROM told t JOIN groups g ON g.id = t.group_id GROUP BY 1, 2, 3
    )
    SELECT queue_id, tenant, owner, w.seconds, x.held_seconds
    FROM wanted w FULL JOIN (SELECT * FROM usage WHERE resource = 'H100-80GB') AS x
      USING (queue_id, tenant, owner)
    WHERE abs(w.seconds - x.held_seconds) < 1e-6 * GREATEST(1, w.seconds) IS NOT TRUE
"""
_COUNTS = """
    WITH run AS (SELECT id FROM groups WHERE labels->>'run' = %(label)s),
    gave AS (SELECT * FROM preemptions WHERE group_id IN (SELECT id FROM run)),
    resized AS (SELECT * FROM events WHERE kind = 'Resized' AND group_id IN (SELECT id FROM run))
    SELECT (SELECT count(*) FROM gave WHERE revision = 0) AS evictions,
           (SELECT count(*) FROM gave WHERE revision > 0) AS shrinks,
           (SELECT count(*) FROM resized WHERE (data ->> 'added')::int > 0) AS growths,
           (SELECT count(*) FROM gave WHERE outcome = 'Wasted') AS wasted
"""


def judge_policy(conn: psycopg.Connection, label: str) -> None:
    """Of the run's groups: each eviction, and each time that members were given up, has one receipt, which
    says what became of its beneficiary, and was told once; nobody claims anything. Of all groups of the
    stack: each closed attempt is charged once, for what it held before and after each change of its size."""
    with conn.cursor(row_factory=dict_row) as cursor:
        for receipt in cursor.execute(_RECEIPTS, [label]).fetchall():
            _judge_receipt(receipt)
            assert (receipt["closed_as"], receipt["cause"]) in _ENDS_OF_VICTIMS, receipt
        for receipt in cursor.execute(_SURPLUS, [label]).fetchall():
            _judge_receipt(receipt)
    # The next cycle ends that of who has ended.
    wait_for(
        lambda: None if conn.execute(_CLAIMS, [label]).fetchall() else True,
        "nobody claims anything",
        seconds=_CYCLE_SECONDS,
    )
    wait_for(lambda: True if _is_charged(conn) else None, "all is charged", seconds=_CHARGE_SECONDS)
    for wrong in (conn.execute(_USAGE).fetchall(), conn.execute(_TOLD).fetchall()):
        assert not wrong, wrong


@dataclass(frozen=True, slots=True)
class PolicyCounts:
    """How often groups of a run gave way or changed their size."""

    evictions: int
    shrinks: int
    growths: int
    wasted: int


def count_policy(conn: psycopg.Connection, label: str) -> PolicyCounts:
    with conn.cursor(row_factory=class_row(PolicyCounts)) as cursor:
        found = cursor.execute(_COUNTS, {"label": label}).fetchone()
    assert found is not None
    return found


def _judge_receipt(receipt: dict[str, Any]) -> None:
    assert (receipt["is_noted"], receipt["told"]) == (True, 1), receipt
    is_served = receipt["outcome"] == "Started" and receipt["has_begun"]
    assert receipt["outcome"] == "Wasted" or is_served, receipt


#: A cancel, or a drain, may come while it gives way.
_ENDS_OF_VICTIMS = {("Requeued", "Preempted"), ("Cancelled", "Cancelled")}


def _is_charged(conn: psycopg.Connection) -> bool:
    return conn.execute("SELECT count(*) FROM uncharged_attempts").fetchone() == (0,)
