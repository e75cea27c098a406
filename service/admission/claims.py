"""Claims of one cycle: those that are kept, those that end, and those that are made."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from service.admission.eligibility import is_eligible, is_open
from service.admission.resident import World
from service.domain.claim import Claim, ClaimCause
from service.domain.preemption import WasteCause


class ClaimBook:
    """What the World has, and what a cycle changes of it. A claim ends when its unit starts, ends, or may
    not start any more; never by itself."""

    def __init__(self, world: World, now: datetime) -> None:
        self._world = world
        self._kept = dict(world.claims)
        self._wasted: dict[int, WasteCause] = {}
        for unit_id in sorted(world.claims):
            if not _is_entitled(world, unit_id, now):
                waits = unit_id in world.pending
                self.end(unit_id, WasteCause.ENTITLEMENT_LOST if waits else WasteCause.CLAIMANT_ENDED)

    def of_preemptions(self) -> dict[int, Claim]:
        """By the unit that waits for others to give way."""
        return {
            unit_id: claim for unit_id, claim in self._kept.items() if claim.cause is ClaimCause.PREEMPTION
        }

    def find(self, unit_id: int) -> Claim | None:
        return self._kept.get(unit_id)

    def make(self, claim: Claim) -> None:
        """In place of the one that the unit may have."""
        self._kept[claim.unit_id] = claim

    def end(self, unit_id: int, wasted: WasteCause | None = None) -> None:
        """`wasted`: why others gave way to the unit for nothing."""
        claim = self._kept.pop(unit_id, None)
        if wasted is not None and claim is not None and claim.cause is ClaimCause.PREEMPTION:
            self._wasted[unit_id] = wasted

    def made(self) -> tuple[Claim, ...]:
        """New ones, and those that changed, in the order of their units."""
        before = self._world.claims
        return tuple(claim for unit_id, claim in sorted(self._kept.items()) if before.get(unit_id) != claim)

    def wasted(self) -> Mapping[int, WasteCause]:
        return self._wasted

    def ended(self) -> frozenset[int]:
        return frozenset(self._world.claims.keys() - self._kept.keys())


def _is_entitled(world: World, unit_id: int, now: datetime) -> bool:
    """Whether the unit waits, may start now, and would fit if nothing else were there."""
    row = world.pending.get(unit_id)
    if row is None or not is_eligible(row, now):
        return False
    if not is_open(world.configuration.queues.get(row.queue_id)):
        return False
    return world.feasibility.fits(row.shape_id, world.shapes[row.shape_id], world.quota, row.queue_id)
