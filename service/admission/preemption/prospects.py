"""Whether all who might give way to a claimant could make room for it together: told from numbers, before
any place is imagined. A no is certain, a yes is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from service.admission.held.holds import Taken, taken_by
from service.admission.nodes.query import ShapeQuery
from service.admission.preemption.candidates import Candidates, Source
from service.admission.preemption.seats_to_come import SeatsToCome
from service.admission.preemption.usages import usages_of
from service.admission.quota.book import QuotaBook
from service.admission.resident import World
from service.admission.world import PendingUnit, RunningUnit
from service.domain.queue import Reclaim


class Prospects:
    """Of one cycle. `leaving`: units that go whoever comes."""

    def __init__(self, world: World, quota: QuotaBook, candidates: Candidates) -> None:
        self._world = world
        self._quota = quota
        self._candidates = candidates
        self._leaving = Source()
        self._seats = SeatsToCome(world.capacity, self._leaving)

    def note_leaving(self, units: Iterable[RunningUnit]) -> None:
        """These go too."""
        for unit in units:
            self._leaving.add(unit, taken_by(unit.places, self._world.shapes[unit.shape_id]))
        self._seats.forget()

    def nodes_of(self, row: PendingUnit, lent: Iterable[Taken]) -> set[int]:
        """On which something may become free for the row."""
        nodes = {*self._leaving.nodes, *(taken.node_id for taken in lent)}
        return nodes.union(*(source.nodes for source in self._candidates.sources(row)))

    def has_any(self, row: PendingUnit, *, lent: Sequence[Taken], is_missed: bool) -> bool:
        """`lent`: what is kept for others that the row goes before; `is_missed`: it is known to find no
        place, whatever the quota."""
        world = self._world
        if not world.could_fit(row):
            return False
        query = world.capacity.query(row.shape_id, world.shapes[row.shape_id])
        own, others = self._candidates.own_source(row), self._candidates.other_sources(row)
        return any(
            not is_missed or self._seats.may_seat(query.roles[0], sources=sources, lent=lent)
            for sources in self._entitled(row, query, own=own, others=others)
        )

    def _entitled(
        self, row: PendingUnit, query: ShapeQuery, *, own: Source | None, others: Sequence[Source]
    ) -> Iterator[list[Source]]:
        """Those of which it may take something, on some of its models, if that makes enough quota free."""
        mine = [] if own is None else [own]
        found: set[int] = set()
        for usage in usages_of(query):
            sources = [*mine, *others] if self._may_take_of_others(row, usage, mine) else mine
            if len(sources) not in found and sources and self._has_quota(row, usage, sources):
                found.add(len(sources))
                yield sources

    def _may_take_of_others(self, row: PendingUnit, usage: Mapping[str, int], mine: Iterable[Source]) -> bool:
        policy = self._world.configuration.queues[row.queue_id].policy
        return policy.reclaim is Reclaim.FAIR_SHARE or self._is_within_nominal(row, usage, mine)

    def _is_within_nominal(self, row: PendingUnit, usage: Mapping[str, int], mine: Iterable[Source]) -> bool:
        """With what the own queue would give back."""
        less = Counter(usage)
        for source in mine:
            less.subtract(source.usage)
        return self._world.quota.is_within_nominal(
            row.queue_id, {resource: less[resource] for resource, amount in usage.items() if amount}
        )

    def _has_quota(self, row: PendingUnit, usage: Mapping[str, int], sources: Sequence[Source]) -> bool:
        """What somebody gives back leaves no more than that to anybody."""
        if not row.is_preemptible and not self._is_within_nominal(row, usage, sources):
            return False
        for resource, amount in usage.items():
            room = self._quota.headroom(row.queue_id, resource) if amount else None
            if room is None or amount <= room:
                continue
            freed = sum(source.usage[resource] for source in (self._leaving, *sources))
            if amount > room + freed:
                return False
        return True
