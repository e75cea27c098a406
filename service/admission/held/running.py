"""A unit that runs: what an admission makes of a row, and what is given back when it changes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from service.admission.plan import Admission
from service.admission.world import Freed, PendingUnit, RunningUnit


def running_of(row: PendingUnit, admission: Admission, admitted_at: datetime) -> RunningUnit:
    limit = row.time_limit_seconds
    return RunningUnit(
        id=admission.unit_id,
        group_id=admission.group_id,
        public_id=row.public_id,
        queue_id=admission.queue_id,
        shape_id=admission.shape_id,
        attempt=admission.attempt,
        revision=1,
        places=admission.places,
        usage=admission.usage,
        admitted_at=admitted_at,
        priority=row.priority,
        submitted_at=row.submitted_at,
        owner=row.owner,
        is_preemptible=row.is_preemptible,
        grace_seconds=row.grace_seconds,
        preempted_at=row.preempted_at,
        expected_seconds=row.expected_seconds,
        time_limit_at=None if limit is None else admitted_at + timedelta(seconds=limit),
    )


def freed_of(before: RunningUnit, after: RunningUnit | None) -> Iterator[Freed]:
    """What of its places a unit gave back."""
    if after is None or after.attempt != before.attempt:
        yield Freed(unit_id=before.id, attempt=before.attempt, shape_id=before.shape_id)
    elif gone := tuple(place for place in before.places if place not in after.places):
        yield Freed(unit_id=before.id, attempt=before.attempt, shape_id=before.shape_id, places=gone)
