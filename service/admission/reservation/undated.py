"""Classes of which no claim can be dated: whoever holds what they need has no bound."""

from __future__ import annotations

from service.admission.claims.book import ClaimBook
from service.admission.fit import Fitter
from service.admission.resident import World
from service.admission.waiting.backlog import ClassId
from service.admission.world import PendingUnit


class Undated:
    """They are not asked again before somebody without a bound has ended, or claims have changed. `found`:
    those of this cycle."""

    def __init__(self, world: World, *, fitter: Fitter, claims: ClaimBook) -> None:
        self._world = world
        self._fitter = fitter
        self._claims = claims
        self.found: set[ClassId] = set()

    def is_known(self, class_id: ClassId) -> bool:
        """In this cycle, or since an earlier one: that says nothing where this one has left anybody places
        that were claimed."""
        if class_id in self.found:
            return True
        return not self._claims.loosened and self._world.memory.undated.get(class_id) == self._stamp()

    def note(self, row: PendingUnit) -> None:
        class_id, query = (row.queue_id, row.shape_id), self._fitter.query(row.shape_id)
        self.found.add(class_id)
        # What this cycle takes and claims may never be: only what is true without it is kept.
        if self._claims.changes or self._world.capacity.is_in_use:
            return
        caps = self._fitter.caps_of(row) or {}
        if all(cap >= query.total.gpus for cap in caps.values()):
            self._world.memory.undated[class_id] = self._stamp()

    def _stamp(self) -> tuple[int, int]:
        return self._world.holders.endless_ended, self._world.claims_revision
