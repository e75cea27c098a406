"""What must be true of evictions, claims and usage once the faults are over and all groups have ended."""

from __future__ import annotations

import psycopg
from psycopg.rows import dict_row

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
    FROM closed_attempts c FULL JOIN preemptions p USING (unit_id, attempt)
    WHERE (c.cause = 'Preempted' OR p.unit_id IS NOT NULL)
      AND COALESCE(c.group_id, p.group_id) IN (SELECT id FROM groups WHERE labels->>'run' = %s)
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


def judge_policy(conn: psycopg.Connection, label: str) -> None:
    """Of the run's groups: each eviction has one receipt, which says what became of its beneficiary, and was
    told once; nobody claims anything. Of all groups of the stack: each closed attempt is charged once."""
    with conn.cursor(row_factory=dict_row) as cursor:
        for receipt in cursor.execute(_RECEIPTS, [label]):
            assert receipt["is_noted"], receipt
            assert receipt["told"] == 1, receipt
            assert (receipt["closed_as"], receipt["cause"]) in _ENDS_OF_VICTIMS, receipt
            assert receipt["outcome"] == "Wasted" or (
                receipt["outcome"] == "Started" and receipt["has_begun"]
            ), receipt
    # The next cycle ends that of who has ended.
    wait_for(
        lambda: None if conn.execute(_CLAIMS, [label]).fetchall() else True,
        "nobody claims anything",
        seconds=_CYCLE_SECONDS,
    )
    wait_for(lambda: True if _is_charged(conn) else None, "all is charged", seconds=_CHARGE_SECONDS)
    assert conn.execute(_USAGE).fetchall() == []


#: A cancel, or a drain, may come while it gives way.
_ENDS_OF_VICTIMS = {("Requeued", "Preempted"), ("Cancelled", "Cancelled")}


def _is_charged(conn: psycopg.Connection) -> bool:
    return conn.execute("SELECT count(*) FROM uncharged_attempts").fetchone() == (0,)
