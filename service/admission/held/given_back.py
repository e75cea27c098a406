"""What the bounded units of a queue have given back by a date: kept while units come and go, for the dates of
claims stand from cycle to cycle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from service.admission.world import RunningUnit

#: So many dates of one queue are kept: those that were asked for last for the first time.
_MOST_DATES = 16


class GivenBack:
    """Of all running units, by queue and date. Whoever starts and ends is told by `add` and `remove`."""

    def __init__(self) -> None:
        self._known: dict[int, dict[datetime, dict[str, int]]] = {}

    def by(self, queue_id: int, due_at: datetime, units: Iterable[RunningUnit]) -> Mapping[str, int]:
        """Amounts by resource. `units`: all that run in the queue, for a date that is asked for first."""
        dates = self._known.setdefault(queue_id, {})
        known = dates.get(due_at)
        if known is None:
            known = dates[due_at] = {}
            for unit in units:
                _change(known, unit, due_at, 1)
            if len(dates) > _MOST_DATES:
                del dates[next(iter(dates))]
        return known

    def add(self, unit: RunningUnit) -> None:
        for due_at, known in self._known.get(unit.queue_id, {}).items():
            _change(known, unit, due_at, 1)

    def remove(self, unit: RunningUnit) -> None:
        for due_at, known in self._known.get(unit.queue_id, {}).items():
            _change(known, unit, due_at, -1)


def _change(known: dict[str, int], unit: RunningUnit, due_at: datetime, sign: int) -> None:
    frees_at = unit.frees_at
    if frees_at is not None and frees_at <= due_at:
        for resource, amount in unit.usage.items():
            known[resource] = known.get(resource, 0) + sign * amount
