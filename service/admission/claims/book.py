"""Claims of one cycle: those that are kept, those that end, and those that are made."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from service.admission.claims.dating import Ends
from service.admission.held.holds import Taken, taken_by
from service.admission.plan import Admission
from service.admission.resident import World
from service.admission.state.kept import is_entitled, kept_of
from service.admission.waiting.eligibility import is_eligible
from service.domain.claim import Claim, ClaimCause
from service.domain.node import Place
from service.domain.preemption import WasteCause
from service.domain.shape import Shape


class ClaimBook:
    """What the World has, and what a cycle changes of it. A claim ends when its unit starts, ends, or may
    not start any more; never by itself. What was kept for it stays so until the cycle is committed, once
    anybody has been tried: those who did not fit come first, in the next one."""

    def __init__(self, world: World, now: datetime, *, ends: Ends, without: Collection[int] = ()) -> None:
        self._world = world
        self._now = now
        self._ends = ends
        self._taken = dict(world.capacity.kept)
        self._claims = dict(world.claims)
        #: Counts what is made, dated and ended.
        self.changes = 0
        #: How many of them left places to others: claims that ended, or got other places.
        self.loosened = 0
        self._wasted: dict[int, WasteCause] = {}
        self._rests: dict[int, tuple[tuple[Place, ...], tuple[Taken, ...], tuple[Taken, ...]]] = {}
        for unit_id, claim in world.claims.items():
            if unit_id not in without and not self._is_kept(claim):
                waits = unit_id in world.pending
                self.give_up(unit_id, WasteCause.ENTITLEMENT_LOST if waits else WasteCause.CLAIMANT_ENDED)

    def of_preemptions(self) -> dict[int, Claim]:
        """By the unit that waits for others to give way."""
        return {
            unit_id: claim for unit_id, claim in self._claims.items() if claim.cause is ClaimCause.PREEMPTION
        }

    def __iter__(self) -> Iterator[Claim]:
        """The oldest first."""
        return iter(sorted(self._claims.values(), key=lambda claim: (claim.made_at, claim.unit_id)))

    def __len__(self) -> int:
        return len(self._claims)

    @property
    def by_unit(self) -> Mapping[int, Claim]:
        return self._claims

    @property
    def taken(self) -> Mapping[int, tuple[Taken, ...]]:
        """What is kept now, by unit."""
        return self._taken

    def find(self, unit_id: int) -> Claim | None:
        return self._claims.get(unit_id)

    def kept_of(self, *unit_ids: int) -> list[Taken]:
        """What is kept now for these."""
        return [taken for unit_id in unit_ids for taken in self._taken.get(unit_id, ())]

    def make(self, claim: Claim) -> None:
        """In place of the one that the unit may have. What is free of its places is taken at once; of a
        preemption all of them, which those who leave hold besides."""
        capacity = self._world.capacity
        self.changes += 1
        self.loosened += claim.unit_id in self._claims
        capacity.lend(self._taken.pop(claim.unit_id, ()))
        self._claims[claim.unit_id] = claim
        if claim.cause is ClaimCause.PREEMPTION:
            capacity.take(taken_by(claim.places, self._shape(claim)))
            return
        others: dict[int, set[int]] = {}
        for taken in self.all_taken():
            others.setdefault(taken.node_id, set()).update(taken.devices)
        self._taken[claim.unit_id] = self._find_kept(claim, others)
        capacity.take(self._taken[claim.unit_id])

    def redate(self, claim: Claim) -> None:
        """The same places, another date."""
        self.changes += 1
        self._claims[claim.unit_id] = claim

    def end(self, unit_id: int, wasted: WasteCause | None = None) -> None:
        """Nothing, where the unit has none. `wasted`: why others gave way to it for nothing."""
        claim = self._claims.pop(unit_id, None)
        if claim is None:
            return
        self.changes += 1
        self.loosened += 1
        if wasted is not None and claim.cause is ClaimCause.PREEMPTION:
            self._wasted[unit_id] = wasted

    def give_up(self, unit_id: int, wasted: WasteCause | None = None) -> None:
        """As `end`, before anybody was tried: what was kept for it is free for all."""
        self.end(unit_id, wasted)
        self._world.capacity.set_free(self._taken.pop(unit_id, ()))

    def all_taken(self) -> Iterator[Taken]:
        for taken in self._taken.values():
            yield from taken

    def kept_next(self) -> Mapping[int, tuple[Taken, ...]]:
        """By unit, what will be kept once the cycle is committed. Of those for whom others give way, that is
        known by whoever serves them."""
        if not self.changes:
            return self._taken
        found: dict[int, tuple[Taken, ...]] = {}
        others: dict[int, set[int]] = {}
        for claim in self:
            if claim.cause is not ClaimCause.PREEMPTION:
                kept = found[claim.unit_id] = self._find_kept(claim, others)
                for taken in kept:
                    others.setdefault(taken.node_id, set()).update(taken.devices)
        return found

    @contextmanager
    def given_up(self, besides: Collection[int]) -> Iterator[tuple[Taken, ...]]:
        """As if nothing were kept for these. Gives what is."""
        capacity = self._world.capacity
        own = tuple(taken for unit_id in besides for taken in self._taken.get(unit_id, ()))
        mark = capacity.lend(own)
        try:
            yield own
        finally:
            capacity.undo(mark)

    def rests(self, besides: Collection[int]) -> list[Taken]:
        """What all claims but these will take and is not kept yet: others still hold it."""
        return [
            taken
            for unit_id, claim in sorted(self._claims.items())
            if unit_id not in besides and claim.cause is not ClaimCause.PREEMPTION
            for taken in self._rest_of(claim)
        ]

    @contextmanager
    def occupied(self, nodes: Collection[int], *, besides: Collection[int]) -> Iterator[None]:
        """As if all claims held all of their places on these nodes already, also what others still hold of
        them, but for these claims, which give theirs up."""
        capacity = self._world.capacity
        rests = [taken for taken in self.rests(besides) if taken.node_id in nodes]
        with self.given_up(besides):
            capacity.imagine(rests, is_free=False)
            try:
                yield
            finally:
                capacity.imagine(rests, is_free=True)

    def _find_kept(self, claim: Claim, others: Mapping[int, Collection[int]]) -> tuple[Taken, ...]:
        """`others`: devices by node that other claims keep already."""
        return kept_of(
            claim,
            self._shape(claim),
            nodes=self._world.capacity.nodes,
            on_node=self._ends.on_node,
            taken=others,
        )

    def _shape(self, claim: Claim) -> Shape:
        return self._world.shapes[self._world.pending[claim.unit_id].shape_id]

    def _rest_of(self, claim: Claim) -> tuple[Taken, ...]:
        """As long as its places and what is kept of them are the same, the same."""
        places, kept = claim.places, self._taken.get(claim.unit_id, ())
        known = self._rests.get(claim.unit_id)
        if known is None or known[0] is not places or known[1] is not kept:
            known = self._rests[claim.unit_id] = places, kept, tuple(self._find_rest(claim, kept))
        return known[2]

    def _find_rest(self, claim: Claim, taken: Iterable[Taken]) -> Iterator[Taken]:
        """What of its places is not kept yet."""
        kept = {each.node_id: each for each in taken}
        for need in taken_by(claim.places, self._shape(claim)):
            have = kept.get(need.node_id, Taken(need.node_id, (), 0, 0))
            yield Taken(
                need.node_id,
                tuple(device for device in need.devices if device not in have.devices),
                max(0, need.cpus_milli - have.cpus_milli),
                max(0, need.memory_mib - have.memory_mib),
            )

    def keep_rest(self, unit_ids: Iterable[int], admissions: Collection[Admission]) -> None:
        """Take again what was lent of these claims, but for what was admitted on it."""
        devices: dict[int, set[int]] = {}
        for admission in admissions:
            for place in admission.places:
                devices.setdefault(place.node_id, set()).update(place.devices)
        for unit_id in unit_ids:
            self._taken[unit_id] = tuple(
                _rest(taken, devices.get(taken.node_id, set()), admissions)
                for taken in self._taken.get(unit_id, ())
            )
            self._world.capacity.take(self._taken[unit_id])

    def made(self) -> tuple[Claim, ...]:
        """New ones, and those that changed, in the order of their units."""
        before = self._world.claims
        return tuple(claim for unit_id, claim in sorted(self._claims.items()) if before.get(unit_id) != claim)

    def wasted(self) -> Mapping[int, WasteCause]:
        return self._wasted

    def ended(self) -> frozenset[int]:
        return frozenset(self._world.claims.keys() - self._claims.keys())

    def _is_kept(self, claim: Claim) -> bool:
        """Whether the unit waits, may start by the date, and would fit if nothing else were there."""
        world, row = self._world, self._world.pending.get(claim.unit_id)
        if row is None or not is_entitled(claim, row, world.configuration.queues.get(row.queue_id)):
            return False
        if claim.due_at is None and not is_eligible(row, self._now):
            return False
        return world.could_fit(row)


def _rest(taken: Taken, devices: Collection[int], admissions: Iterable[Admission]) -> Taken:
    node = taken.node_id
    cpus_milli = sum(admission.cpus_milli_by_node.get(node, 0) for admission in admissions)
    memory_mib = sum(admission.memory_mib_by_node.get(node, 0) for admission in admissions)
    return Taken(
        node,
        tuple(device for device in taken.devices if device not in devices),
        max(0, taken.cpus_milli - cpus_milli),
        max(0, taken.memory_mib - memory_mib),
    )
