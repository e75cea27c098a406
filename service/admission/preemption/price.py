"""What a preemption loses: work that nobody has saved, and a restart."""

from __future__ import annotations

from datetime import datetime

from service.admission.policy import Policy
from service.admission.world import RunningUnit


def price_of(unit: RunningUnit, policy: Policy, now: datetime) -> float:
    """GPU-seconds that are lost if the unit gives way now: its work since its last common checkpoint, of
    which none is known yet, so since its admission, up to a cap, and the cost of its restart."""
    work = max(0.0, (now - unit.admitted_at).total_seconds())
    return gpus_of(unit) * (min(work, policy.lost_work_cap_seconds) + policy.restart_cost_seconds)


def gpus_of(unit: RunningUnit) -> int:
    return sum(len(place.devices) for place in unit.places)
