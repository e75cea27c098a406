"""Of which priorities units run that may be preempted, by queue."""

from __future__ import annotations

from collections import Counter
from math import inf

from service.admission.world import RunningUnit


def may_go(unit: RunningUnit) -> bool:
    """Whether it may be preempted: not if it gives way already."""
    return unit.is_preemptible and unit.evicting_until is None


class Priorities:
    """Counted as units start and end, so that nobody looks at all of them."""

    def __init__(self) -> None:
        self._in: dict[int, Counter[int]] = {}

    def lowest_in(self, queue_id: int) -> float:
        """The lowest of what runs in the queue and may be preempted; infinite for nothing."""
        return min(self._in.get(queue_id, ()), default=inf)

    def add(self, unit: RunningUnit) -> None:
        if may_go(unit):
            self._in.setdefault(unit.queue_id, Counter())[unit.priority] += 1

    def remove(self, unit: RunningUnit) -> None:
        if may_go(unit):
            counts = self._in[unit.queue_id]
            counts[unit.priority] -= 1
            if not counts[unit.priority]:
                del counts[unit.priority]
