"""What keeps a running unit from giving way, and until when."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from service.admission.world import RunningUnit
from service.domain.preemption import Protection
from service.domain.queue import QueuePolicy

_DAY = timedelta(days=1)


def protections(unit: RunningUnit, policy: QueuePolicy) -> Iterator[tuple[Protection, datetime | None]]:
    """What its queue says; each ends at its instant, which may be past, or never."""
    if policy.min_runtime_seconds:
        yield Protection.MIN_RUNTIME, unit.admitted_at + timedelta(seconds=policy.min_runtime_seconds)
    most = policy.evictions_per_day
    if most == 0:
        yield Protection.EVICTIONS_PER_DAY, None
    elif most is not None and len(unit.preempted_at) >= most:
        yield Protection.EVICTIONS_PER_DAY, sorted(unit.preempted_at)[-most] + _DAY


def is_over(until: datetime | None, now: datetime) -> bool:
    return until is not None and until <= now
