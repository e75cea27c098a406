"""Preemption: for whom running units give way, and the places that are then kept for it.

Nobody is touched before it is proved that the claimant sits whole, on what is free and what becomes free,
within every quota. The places are claimed in the same plan, so that a second claimant of a cycle
neither counts them nor chooses their holders again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from service.admission.elastic.surplus import shrink
from service.admission.held.holds import Taken, taken_by
from service.admission.nodes.capacity import Capacity
from service.admission.nodes.query import ShapeQuery
from service.admission.placement.ranks import devices_of_members, gang_places
from service.admission.placement.scratch import Share
from service.admission.plan import Eviction, Receipt, Resize
from service.admission.policy import Policy
from service.admission.preemption.candidates import Candidates
from service.admission.preemption.cheapest import Found
from service.admission.preemption.chooser import Chooser
from service.admission.preemption.delays import Delays
from service.admission.preemption.prospects import Prospects
from service.admission.preemption.receipts import receipts_of
from service.admission.quota.book import QuotaBook
from service.admission.resident import World
from service.admission.world import PendingUnit, RunningUnit
from service.domain.claim import Claim, ClaimCause
from service.domain.node import Place

#: Beyond the grace of the latest victim, for its members to be gone and its places given back.
CLEARING_SECONDS = 60.0
#: With more candidates the number of their sets is too large to weigh each.
MOST_EXACT = 13
#: How often places are sought in one cycle.
_TESTS_OF_CYCLE = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """Who gives way, whole or with surplus members, and the claim on all places of the claimant. `usage`:
    what it will hold."""

    evictions: tuple[Eviction, ...]
    resizes: tuple[Resize, ...]
    claim: Claim
    usage: Mapping[str, int]


class Preemptor:
    """Preemptions of one cycle, which keeps its admissions, and what is kept for claimants, in the World's
    capacity and in `quota`. Shown blocked heads, it plans for each what is to be done for it."""

    def __init__(
        self,
        world: World,
        quota: QuotaBook,
        *,
        policy: Policy,
        now: datetime,
        most_exact: int = MOST_EXACT,
    ) -> None:
        self._world = world
        self._quota = quota
        self._now = now
        self._candidates = Candidates(world, policy, now)
        self._prospects = Prospects(world, quota, self._candidates)
        self._chooser = Chooser(world, policy, tests=_TESTS_OF_CYCLE, most_exact=most_exact)
        #: Who would give way later.
        self.delays = Delays(world, policy, now, candidates=self._candidates, most_exact=most_exact)
        self.evictions: list[Eviction] = []
        self.resizes: list[Resize] = []
        #: Units that are Evicting or were chosen, or members of them, and until when they may hold places.
        self._leaving = [(unit, unit.frees_at or now) for unit in world.leaving.values()]
        self._prospects.note_leaving(world.leaving.values())

    @property
    def giving_way(self) -> set[int]:
        """Units that are evicted or shrink."""
        return {each.unit_id for each in self.evictions} | {each.unit_id for each in self.resizes}

    @property
    def awaited(self) -> Collection[int]:
        """Elastic units whose surplus somebody waits for."""
        return self.delays.awaited

    def wants_any_of(self, queue_id: int) -> bool:
        """Whether blocked heads of the queue are to be shown to `plan`, also hopeless ones."""
        return self._chooser.tests_left > 0 and self._candidates.may_be_for(queue_id)

    def may_have(self, row: PendingUnit) -> bool:
        """False if it is plain, without a look at places, that nobody gives way to the row."""
        return self._chooser.tests_left > 0 and self._candidates.may_have(row)

    def may_plan(self, row: PendingUnit, *, lent: Sequence[Taken] = (), is_missed: bool = False) -> bool:
        """Whether others might give way to the row: a quick look, before any place is imagined. `lent`: what
        is kept for others that it goes before; `is_missed`: it is known to find no place."""
        return self.may_have(row) and self._prospects.has_any(row, lent=lent, is_missed=is_missed)

    def nodes_of(self, row: PendingUnit, lent: Iterable[Taken]) -> Collection[int]:
        """Where something may become free for the row."""
        return self._prospects.nodes_of(row, lent)

    def plan(self, row: PendingUnit) -> Preemption | None:
        """For a head that was tried and has no place. The caller takes its new claim out of the capacity."""
        # 1. Most are told at once that nobody has to give way to them.
        if not self.may_plan(row):
            return None
        # 2. Who gives way, proved on the state in which those that leave are gone.
        query = self._world.capacity.query(row.shape_id, self._world.shapes[row.shape_id])
        with self._when_clear():
            choice = self._chooser.choose(row, query, self._candidates)
            found, claimant = choice.found, choice.claimant
            if found is None and not choice.has_room:
                self.delays.note_refused(row, query)
            if found is None or self.delays.is_delayed(row, query, choice):
                return None
            receipts = receipts_of(claimant, found, self._world.quota)
        evictions, resizes = _evictions(found, receipts), self._resizes(found, receipts)
        self.evictions.extend(evictions)
        self.resizes.extend(resizes)
        # 3. The claim; those who give way, and what the claimant will hold, count for the next one.
        victims = [candidate.unit for candidate in found.victims]
        places = _places(row, query, found.places, self._world.capacity)
        self._prospects.note_leaving(victims)
        self._leaving.extend((unit, self._now + timedelta(seconds=unit.grace_seconds)) for unit in victims)
        self._candidates.forget([each.of or each.unit for each in found.victims])
        for resize in resizes:
            self._candidates.note_shrinking(resize.unit_id, resize.dropped)
        self._quota.charge(row.queue_id, claimant.usage)
        claim = Claim(
            unit_id=row.id,
            cause=ClaimCause.PREEMPTION,
            made_at=self._now,
            due_at=self._due_at(places, victims),
            places=places,
        )
        return Preemption(evictions=evictions, resizes=resizes, claim=claim, usage=claimant.usage)

    def _resizes(self, found: Found, receipts: Mapping[int, Receipt]) -> tuple[Resize, ...]:
        """What elastic units give up."""
        dropped: dict[int, list[Place]] = {}
        for candidate in found.victims:
            if candidate.of is not None:
                dropped.setdefault(candidate.of.id, []).extend(candidate.unit.places)
        units, nodes = self._world.running, self._world.configuration.nodes
        return tuple(
            shrink(
                units[unit_id],
                self._world.shapes[units[unit_id].shape_id],
                dropped=places,
                nodes=nodes,
                receipt=receipts[unit_id],
            )
            for unit_id, places in sorted(dropped.items())
        )

    @contextmanager
    def _when_clear(self) -> Iterator[None]:
        """As if all that leaves were gone."""
        world = self._world
        leaving = [unit for unit, _ in self._leaving]
        self._chooser.note_looks(len(leaving))
        frees = [taken for unit in leaving for taken in taken_by(unit.places, world.shapes[unit.shape_id])]
        world.capacity.imagine(frees, is_free=True)
        for unit in leaving:
            world.quota.refund(unit.queue_id, unit.usage)
        try:
            yield
        finally:
            for unit in leaving:
                world.quota.charge(unit.queue_id, unit.usage)
            world.capacity.imagine(frees, is_free=False)

    def _due_at(self, places: Sequence[Place], victims: Sequence[RunningUnit]) -> datetime:
        """When the last of those that leave these places, or make quota free, must be gone."""
        nodes, chosen = {place.node_id for place in places}, {unit.id for unit in victims}
        ends = [
            until
            for unit, until in self._leaving
            if unit.id in chosen or not nodes.isdisjoint(place.node_id for place in unit.places)
        ]
        return max(self._now, *ends) + timedelta(seconds=CLEARING_SECONDS)


def _evictions(found: Found, receipts: Mapping[int, Receipt]) -> tuple[Eviction, ...]:
    """Of those that go whole."""
    units = sorted((each.unit for each in found.victims if each.of is None), key=lambda unit: unit.id)
    return tuple(Eviction(unit_id=unit.id, attempt=unit.attempt, receipt=receipts[unit.id]) for unit in units)


def _places(
    row: PendingUnit, query: ShapeQuery, shares: tuple[Share, ...], capacity: Capacity
) -> tuple[Place, ...]:
    """All of a gang; of a range those of its first member."""
    if query.shape.is_gang:
        return tuple(gang_places(query.shape, shares, capacity.nodes))
    (share,) = shares
    return tuple(Place(row.first_index, 0, share.node_id, devices) for devices in devices_of_members(share))
