"""What a row lacks besides places: a claim or a guard is for whoever lacks nothing else."""

from __future__ import annotations

from datetime import datetime

from service.admission.claims.kept_quota import KeptQuota
from service.admission.fit import Fitter
from service.admission.resident import World
from service.admission.waiting.backlog import ClassId
from service.admission.waiting.eligibility import is_eligible
from service.admission.world import PendingUnit
from service.domain.queue import Order


class Readiness:
    """Of one cycle, as its quota is when it is asked: beside what is kept of it for others."""

    def __init__(self, world: World, now: datetime, *, fitter: Fitter, kept: KeptQuota) -> None:
        self._world = world
        self._now = now
        self._fitter = fitter
        self._kept = kept

    def may_start(self, row: PendingUnit) -> bool:
        """Whether there is quota, and in a strict queue nobody before it."""
        return self._fitter.caps_of(row) is not None and self._is_first(row)

    def may_be_next(self, row: PendingUnit) -> bool:
        """Whether its guard may run out: quota is asked only of who may have less than its equals."""
        if self._fitter.limits.is_over(row) or not self._is_first(row):
            return False
        # Its equals may borrow what it may not, and take what is kept from it.
        return not self._kept.stops(row) if row.is_preemptible else self._fitter.caps_of(row) is not None

    def may_any_be_next(self, class_id: ClassId) -> bool:
        """Whether rows of the class have to be asked one by one."""
        return not self._kept.stops_class(class_id)

    def lacks_places_alone(self, row: PendingUnit) -> bool:
        """Whether there is quota, and the unit would fit if nothing else ran."""
        return self._fitter.caps_of(row) is not None and self._world.could_fit(row)

    def _is_first(self, row: PendingUnit) -> bool:
        """In a strict queue only the first may start."""
        is_strict = self._world.configuration.queues[row.queue_id].order is Order.STRICT
        return not is_strict or self._first_of(row.queue_id) == row.id

    def _first_of(self, queue_id: int) -> int | None:
        """The row that blocks a strict queue till it starts: of those that may start and could ever fit."""
        world = self._world
        rows = (world.pending[key[4]] for key in world.backlog.lines[queue_id].keys)
        return next((row.id for row in rows if self._blocks(row)), None)

    def _blocks(self, row: PendingUnit) -> bool:
        is_over = self._fitter.limits.is_over(row)
        return is_eligible(row, self._now) and not is_over and self._world.could_fit(row)
