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
        self._lowest: dict[int, int] = {}

    def lowest_in(self, queue_id: int) -> float:
        """The lowest of what runs in the queue and may be preempted; infinite for nothing."""
        return self._lowest.get(queue_id, inf)

    def add(self, unit: RunningUnit) -> None:
        if may_go(unit):
            counts = self._in.setdefault(unit.queue_id, Counter())
            counts[unit.priority] += 1
            if len(counts) == 1 or unit.priority < self._lowest[unit.queue_id]:
                self._lowest[unit.queue_id] = unit.priority

    def remove(self, unit: RunningUnit) -> None:
        if may_go(unit):
            counts = self._in[unit.queue_id]
            counts[unit.priority] -= 1
            if counts[unit.priority]:
                return
            del counts[unit.priority]
            if counts:
                self._lowest[unit.queue_id] = min(counts)
            else:
                del self._lowest[unit.queue_id]
