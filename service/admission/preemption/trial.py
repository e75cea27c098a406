"""What would be if some running units were gone: places and quota, until they are put back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from service.admission.held.holds import Taken
from service.admission.nodes.capacity import Capacity
from service.admission.nodes.query import ShapeQuery
from service.admission.placement.placement import place_gang, place_members
from service.admission.placement.scratch import Share
from service.admission.quota.entitlement import (
    Claimant,
    entitlements,
    entitlements_within,
    stays_within_nominal,
)
from service.admission.quota.tree import QuotaTree
from service.admission.world import RunningUnit
from service.domain.preemption import Entitlement


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


class Trial:
    """One claimant on a capacity and a tree of quotas. `tests_left` bounds how often places are sought;
    up to `most_exact` candidates every set of them is weighed."""

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
        self._query = query
        self.claimant = claimant
        self.tests_left = tests
        self.most_exact = most_exact
        self._caps = {model: claimant.usage.get(model, 0) for model in query.models}
        self._freed: dict[int, Candidate] = {}

    def free(self, candidate: Candidate) -> None:
        self._freed[candidate.unit.id] = candidate
        self._apply(candidate, is_free=True)
        self.tree.refund(candidate.unit.queue_id, candidate.unit.usage)

    def hold(self, candidate: Candidate) -> None:
        del self._freed[candidate.unit.id]
        self._apply(candidate, is_free=False)
        self.tree.charge(candidate.unit.queue_id, candidate.unit.usage)

    def reset(self) -> None:
        for candidate in tuple(self._freed.values()):
            self.hold(candidate)

    def place(self) -> tuple[Share, ...] | None:
        """Where the claimant would sit, as things are in the trial."""
        if not self._is_within_quota() or not self._query.has_sums():
            return None
        self.tests_left -= 1
        avoided = self.claimant.row.avoided_nodes
        if self._query.shape.is_gang:
            return place_gang(self._capacity, self._query, caps=self._caps, avoided=avoided)
        shares = place_members(self._capacity, self._query, caps=self._caps, want=1, avoided=avoided)
        return shares or None

    def rights(self) -> Mapping[int, Entitlement] | None:
        """By what right each of those that are gone would be taken; None if one may not be."""
        units = [candidate.unit for candidate in self._freed.values()]
        found: Sequence[Entitlement] | None
        if all(unit.queue_id == self.claimant.row.queue_id for unit in units):
            # Within a queue priorities decide, whoever is gone already.
            found = entitlements_within(self.claimant, units)
        else:
            with self._all_held():
                found = entitlements(self.claimant, units, self.tree)
        return None if found is None else {unit.id: right for unit, right in zip(units, found, strict=True)}

    def missing_gpus(self) -> int:
        """How many more the claimant needs in sum, of those that it could use."""
        return max((check.need.gpus - check.field.gpus() for check in self._query.checks), default=0)

    def may_take_all(self) -> bool:
        """Whether all that are gone may be taken in some order."""
        if self.tests_left <= 0:
            return False
        self.tests_left -= 1
        return self.rights() is not None

    @contextmanager
    def _all_held(self) -> Iterator[None]:
        for candidate in self._freed.values():
            self.tree.charge(candidate.unit.queue_id, candidate.unit.usage)
        try:
            yield
        finally:
            for candidate in self._freed.values():
                self.tree.refund(candidate.unit.queue_id, candidate.unit.usage)

    def _is_within_quota(self) -> bool:
        tree, queue_id = self.tree, self.claimant.row.queue_id
        if not self.claimant.row.is_preemptible and not stays_within_nominal(self.claimant, tree):
            return False
        rooms = {resource: tree.available(queue_id, resource) for resource in self.claimant.usage}
        return all(
            (room := rooms[resource]) is None or amount <= room
            for resource, amount in self.claimant.usage.items()
            if amount
        )

    def _apply(self, candidate: Candidate, *, is_free: bool) -> None:
        self._capacity.imagine(candidate.frees, is_free=is_free)
