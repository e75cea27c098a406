"""From the end of one attempt to the start of the next on the same GPU, for /metrics."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, text

#: Only so many of the newest starts, and ends before them, are compared.
_MOST = 2_000


def read_turnover_seconds(conn: Connection, *, since: datetime) -> list[float]:
    """For each GPU on which something started to run since then, the time since the attempt before it
    ended there, if what started had been submitted by that time: else the GPU waited for work, not for
    Muster."""
    rows = conn.execute(_TURNOVER, {"since": since, "most": _MOST})
    return [float(seconds) for seconds in rows.scalars()]


_TURNOVER = text("""
    WITH newest AS (SELECT * FROM events ORDER BY id DESC LIMIT 10 * :most),
    starts AS (
      SELECT e.at, g.submitted_at, COALESCE(a.places, c.places) AS places
      FROM (SELECT * FROM newest WHERE kind = 'Running' AND at > :since ORDER BY id DESC LIMIT :most) e
      JOIN groups g ON g.id = e.group_id
      LEFT JOIN attempts a ON a.unit_id = e.unit_id AND a.attempt = e.attempt
      LEFT JOIN closed_attempts c ON c.unit_id = e.unit_id AND c.attempt = e.attempt
      WHERE e.generation = 1
    ),
    ends AS (
      SELECT c.ended_at, c.places
      FROM (SELECT * FROM newest WHERE kind IN ('Succeeded', 'Failed', 'Cancelled', 'Requeued')
            ORDER BY id DESC LIMIT 2 * :most) e
      JOIN closed_attempts c ON c.unit_id = e.unit_id AND c.attempt = e.attempt
    ),
    seats AS (
      SELECT place ->> 2 AS node, device.index, at, submitted_at, NULL AS ended_at
      FROM starts, jsonb_array_elements(places) AS place, jsonb_array_elements(place -> 3) AS device (index)
      UNION ALL
      SELECT place ->> 2, device.index, ended_at, NULL, ended_at
      FROM ends, jsonb_array_elements(places) AS place, jsonb_array_elements(place -> 3) AS device (index)
    ),
    ordered AS (
      SELECT at, submitted_at, lag(ended_at) OVER (PARTITION BY node, index ORDER BY at) AS free_at FROM seats
    )
    SELECT extract(epoch FROM at - free_at) FROM ordered
    WHERE submitted_at <= free_at
""")
