"""What would be if some running units were gone: places and quota, until they are put back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from service.admission.held.holds import Taken
from service.admission.nodes.capacity import Capacity
from service.admission.nodes.query import ShapeQuery
from service.admission.placement.placement import place_gang, place_members
from service.admission.placement.scratch import Share
from service.admission.quota.entitlement import Claimant, Rights
from service.admission.quota.room_given import RoomGiven
from service.admission.quota.tree import QuotaTree
from service.admission.world import RunningUnit
from service.domain.preemption import Entitlement

#: All of them, whatever their model: no quota resource has this name.
GPUS = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A unit that might give way. `cost`: what is lost, in thousandths of a GPU-second. `of`: the elastic
    unit of which this is one surplus member, which `unit` is then as if it were one by itself."""

    unit: RunningUnit
    frees: tuple[Taken, ...]
    cost: int
    of: RunningUnit | None = None

    @property
    def age(self) -> tuple[datetime, int]:
        return self.unit.submitted_at, self.unit.id

    @property
    def gpus(self) -> int:
        """How many it gives back."""
        return sum(len(taken.devices) for taken in self.frees)

    def gives(self, name: str) -> int:
        """How much of a quota resource, or of GPUs in sum."""
        return self.gpus if name == GPUS else self.unit.usage.get(name, 0)


class Trial:
    """One claimant on a capacity and a tree of quotas, which stays as it is. `tests_left` bounds how often
    places are sought; up to `most_exact` candidates every set of them is weighed."""

    def __init__(
        self,
        capacity: Capacity,
        tree: QuotaTree,
        *,
        query: ShapeQuery,
        claimant: Claimant,
        tests: int,
        most_exact: int,
    ) -> None:
        self._capacity = capacity
        self.tree = tree
        self.query = query
        self.claimant = claimant
        self.tests_left = tests
        self.most_exact = most_exact
        self._caps = {model: claimant.usage.get(model, 0) for model in query.models}
        self._freed: dict[int, Candidate] = {}
        self._rights = Rights(claimant, tree)
        self._of_all = Rights(claimant, tree)
        #: Resources of which too little is left before anybody is gone: of the others there is enough.
        self._short = {
            resource: room
            for resource, amount in claimant.usage.items()
            if amount and (room := RoomGiven(tree, claimant.row.queue_id, resource, amount)).missing()
        }

    def free(self, *candidates: Candidate) -> None:
        self._apply(candidates, is_free=True)
        for candidate in candidates:
            self._freed[candidate.unit.id] = candidate
            self._rights.take(candidate.unit)

    def hold(self, *candidates: Candidate) -> None:
        self._apply(candidates, is_free=False)
        for candidate in candidates:
            del self._freed[candidate.unit.id]
            self._rights.put_back(candidate.unit)

    def reset(self) -> None:
        self.hold(*self._freed.values())

    def place(self) -> tuple[Share, ...] | None:
        """Where the claimant would sit, as things are in the trial."""
        if not self._is_within_quota() or not self.query.has_sums():
            return None
        self.tests_left -= 1
        avoided = self.claimant.row.avoided_nodes
        if self.query.shape.is_gang:
            return place_gang(self._capacity, self.query, caps=self._caps, avoided=avoided)
        shares = place_members(self._capacity, self.query, caps=self._caps, want=1, avoided=avoided)
        return shares or None

    def right_to(self, candidate: Candidate) -> Entitlement | None:
        """By what right it may be taken when those are gone that are."""
        return self._rights.to(candidate.unit)

    def rights(self) -> Mapping[int, Entitlement] | None:
        """By what right each of those that are gone would be taken; None if one may not be."""
        return self.rights_to(self._freed.values())

    def rights_to(self, candidates: Iterable[Candidate]) -> Mapping[int, Entitlement] | None:
        """The same if these alone were gone."""
        return self._of_all.to_all([candidate.unit for candidate in candidates])

    def missing(self) -> Mapping[str, int]:
        """How much has still to be given at least: of GPUs that the claimant could use, in sum, and of
        resources of which its quota has too little left."""
        gpus = max((check.need.gpus - check.field.gpus() for check in self.query.checks), default=0)
        quota = {resource: room.missing() for resource, room in self._short.items()}
        return {name: amount for name, amount in ((GPUS, gpus), *quota.items()) if amount > 0}

    def _is_within_quota(self) -> bool:
        if not self.claimant.row.is_preemptible and not self._rights.is_within_nominal():
            return False
        return not any(room.missing() for room in self._short.values())

    def _apply(self, candidates: Iterable[Candidate], *, is_free: bool) -> None:
        self._capacity.imagine((taken for each in candidates for taken in each.frees), is_free=is_free)
        sign = 1 if is_free else -1
        for resource, room in self._short.items():
            for each in candidates:
                if amount := each.unit.usage.get(resource):
                    room.take(each.unit.queue_id, sign * amount)
