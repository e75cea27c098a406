"""What moves forward in a pass: attempts that were launched, units that start and run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from service.domain.status import Status
from service.store.pipe import Pipe, compact, json_rows


@dataclass(slots=True, kw_only=True)
class Progress:
    """Of a locked unit. `is_launched`: the launcher has taken this generation. `status`: the unit is now
    Starting or Running; None if its status stays."""

    unit_id: int
    attempt: int
    generation: int
    is_launched: bool = False
    status: Status | None = None


def send_progress(pipe: Pipe, progress: Sequence[Progress], *, now: datetime) -> None:
    """What is being closed stays so. A unit that runs has met its start and seat deadlines, and what its
    launcher refused before is over."""
    pipe.run(_PROGRESS, json_rows(progress), now)


#: $1 rows of Progress, $2 now.
_PROGRESS = compact("""
    WITH v AS MATERIALIZED (
        SELECT * FROM json_to_recordset(CAST($1 AS json))
            AS v (unit_id bigint, attempt int, generation int, is_launched boolean, status text)
    ), moved AS (
        UPDATE units u
        SET status = v.status, version = u.version + 1,
            refused_dispatches = CASE v.status WHEN 'Running' THEN 0 ELSE u.refused_dispatches END
        FROM v WHERE u.id = v.unit_id AND v.status IS NOT NULL
    )
    UPDATE attempts a
    SET dispatch = CASE WHEN v.is_launched AND a.dispatch = 'Claimed' THEN 'Launched' ELSE a.dispatch END,
        running_at = CASE WHEN v.runs THEN COALESCE(a.running_at, $2) ELSE a.running_at END,
        start_deadline_at = CASE WHEN v.runs THEN NULL ELSE a.start_deadline_at END,
        seat_deadline_at = CASE WHEN v.runs THEN NULL ELSE a.seat_deadline_at END,
        evict_cause = CASE WHEN v.runs THEN NULL ELSE a.evict_cause END,
        evict_message = CASE WHEN v.runs THEN NULL ELSE a.evict_message END
    FROM (SELECT *, status IS NOT DISTINCT FROM 'Running' AS runs FROM v) AS v
    WHERE a.unit_id = v.unit_id AND a.attempt = v.attempt AND a.generation = v.generation
      AND (v.is_launched OR v.runs)
""")
