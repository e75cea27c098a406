"""Claims of one cycle: those that are kept, those that end, and those that are made."""

from __future__ import annotations

from datetime import datetime

from service.admission.eligibility import is_eligible, is_open
from service.admission.resident import World
from service.domain.claim import Claim


class ClaimBook:
    """What the World has, and what a cycle changes of it. A claim ends when its unit starts, ends, or may
    not start any more; never by itself."""

    def __init__(self, world: World, now: datetime) -> None:
        self._world = world
        self._kept = {
            unit_id: claim for unit_id, claim in world.claims.items() if _is_entitled(world, unit_id, now)
        }

    def find(self, unit_id: int) -> Claim | None:
        return self._kept.get(unit_id)

    def make(self, claim: Claim) -> None:
        """In place of the one that the unit may have."""
        self._kept[claim.unit_id] = claim

    def end(self, unit_id: int) -> None:
        self._kept.pop(unit_id, None)

    def made(self) -> tuple[Claim, ...]:
        """New ones, and those that changed, in the order of their units."""
        before = self._world.claims
        return tuple(claim for unit_id, claim in sorted(self._kept.items()) if before.get(unit_id) != claim)

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
