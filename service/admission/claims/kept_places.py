"""What is kept for units for which others give way: nobody else is put on their places or takes their quota,
and they start, there or elsewhere, as soon as they can."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from service.admission.fit import Fitter
from service.admission.held.holds import Taken, taken_by
from service.admission.nodes.capacity import Capacity
from service.admission.preemption.usages import usage_at
from service.admission.quota.entitlement import are_in_one_tree
from service.admission.resident import World
from service.admission.world import PendingUnit
from service.domain.claim import Claim


class KeptPlaces:
    """Until the cycle ends `claims` are taken out of the World's capacity and charged to the quota, and
    to what owner and group may hold: what somebody else took of that would have been freed for nothing."""

    def __init__(self, world: World, fitter: Fitter, claims: Mapping[int, Claim]) -> None:
        self._capacity: Capacity = world.capacity
        self._fitter = fitter
        self._taken: dict[int, tuple[Taken, ...]] = {}
        self._charged: dict[int, tuple[PendingUnit, Mapping[str, int]]] = {}
        for unit_id, claim in sorted(claims.items()):
            row = world.pending[unit_id]
            self._taken[unit_id] = taken_by(claim.places, world.shapes[row.shape_id])
            self._charged[unit_id] = row, usage_at(world, row.shape_id, claim.places)
            self._charge(*self._charged[unit_id])
            self._capacity.take(self._taken[unit_id])

    @contextmanager
    def lifted_for(self, unit_id: int) -> Iterator[None]:
        """As if nothing were kept for this unit, which may take it."""
        self._charge(*_opposite(self._charged[unit_id]))
        self._capacity.imagine(self._taken[unit_id], is_free=True)
        try:
            yield
        finally:
            self._charge(*self._charged[unit_id])
            self._capacity.imagine(self._taken[unit_id], is_free=False)

    def give_up(self, unit_id: int) -> None:
        """Nothing is kept for this unit any more."""
        self._charge(*_opposite(self._charged.pop(unit_id)))
        for taken in self._taken.pop(unit_id):
            self._capacity.put_back(taken)

    def _charge(self, row: PendingUnit, usage: Mapping[str, int]) -> None:
        self._fitter.quota.charge(row.queue_id, usage)
        self._fitter.limits.charge(row, usage)


def _opposite(charged: tuple[PendingUnit, Mapping[str, int]]) -> tuple[PendingUnit, Mapping[str, int]]:
    row, usage = charged
    return row, {resource: -amount for resource, amount in usage.items()}


def has_lost_a_place(claim: Claim, world: World) -> bool:
    """Whether a place of the claim is on a node that is not available, or on a device that is not usable."""
    for place in claim.places:
        state = world.capacity.nodes.get(place.node_id)
        if state is None or not state.is_available or not state.usable.issuperset(place.devices):
            return True
    return False


def has_all_it_waits_for(claim: Claim, world: World) -> bool:
    """Whether nobody leaves any more who is on a node of the claim, or who gives back quota that its
    queue could take."""
    tree, nodes = world.quota, {place.node_id for place in claim.places}
    queue_id = world.pending[claim.unit_id].queue_id
    return all(
        nodes.isdisjoint(place.node_id for place in unit.places)
        and not are_in_one_tree(queue_id, unit.queue_id, tree)
        for unit in world.leaving.values()
    )
