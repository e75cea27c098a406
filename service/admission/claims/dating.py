"""When places become free, and which become free first: from the ends that are enforced, never from how
long anything is likely to take."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from heapq import merge
from typing import NamedTuple

from service.admission.held.holders import Holder
from service.admission.held.holds import Taken, taken_by
from service.admission.held.running import running_of
from service.admission.nodes.query import Check, ShapeQuery
from service.admission.nodes.seats import Sweep, is_plain
from service.admission.nodes.state import NodeState
from service.admission.order.precedence import may_preempt
from service.admission.placement.placement import place_gang, place_members
from service.admission.placement.ranks import devices_of_members, gang_places
from service.admission.placement.scratch import Share
from service.admission.plan import Admission
from service.admission.resident import World
from service.admission.world import PendingUnit, RunningUnit
from service.domain.node import Place

#: Whoever should be gone and is not counts as gone so much later.
LATE = timedelta(seconds=60)


class Dated(NamedTuple):
    """When places are free at the latest; None: never, as far as anybody knows. `is_lost`: a node or device
    of them is not there, or somebody keeps it."""

    due_at: datetime | None
    is_lost: bool = False


class Ends:
    """Who holds what until when, of the World and of the admissions of one cycle."""

    def __init__(self, world: World, now: datetime) -> None:
        self._world = world
        self._now = now
        #: Admissions that nobody has asked about yet: mostly nobody does.
        self._noted: list[tuple[PendingUnit, Admission]] = []
        self._added: dict[int, dict[int, Holder]] = {}
        self._added_ends: list[tuple[datetime, int]] = []
        self._added_taken: dict[int, tuple[Taken, ...]] = {}
        self._added_units: dict[int, RunningUnit] = {}

    def add(self, row: PendingUnit, admission: Admission) -> None:
        self._noted.append((row, admission))

    def add_all(self, admissions: Iterable[Admission]) -> None:
        for admission in admissions:
            self.add(self._world.pending[admission.from_unit_id], admission)

    def _book(self) -> None:
        """Look at what was noted."""
        for row, admission in self._noted:
            unit = running_of(row, admission, self._now)
            taken = taken_by(unit.places, self._world.shapes[unit.shape_id])
            self._added_taken[unit.id], self._added_units[unit.id] = taken, unit
            for each in taken:
                holder = Holder(unit.id, each, unit.frees_at)
                self._added.setdefault(each.node_id, {})[unit.id] = holder
            if unit.frees_at is not None:
                self._added_ends.append((unit.frees_at, unit.id))
        self._noted.clear()

    def on_node(self, node_id: int) -> list[Holder]:
        self._book()
        return [*self._world.holders.on_node(node_id), *self._added.get(node_id, {}).values()]

    def bounded(self) -> Iterator[tuple[Taken, ...]]:
        """What is given back by those whose end is known, the first first."""
        self._book()
        for _, unit_id in merge(self._world.holders.ends, sorted(self._added_ends)):
            yield self._taken(unit_id)

    def endless(self) -> Iterator[tuple[Taken, ...]]:
        """What is held by those who have no bound: whose like ran shortest first, then those of whom
        nothing is known, in the order of units."""
        self._book()
        bounded = {unit_id for _, unit_id in (*self._world.holders.ends, *self._added_ends)}
        endless = {*self._world.holders.taken, *self._added_taken} - bounded
        for unit_id in sorted(endless, key=self._by_likely_end):
            yield self._taken(unit_id)

    def date_of(self, row: PendingUnit, places: Iterable[Place], own: Collection[Taken]) -> Dated:
        """`own`: what is kept of them for the row already. Whom it may preempt at once is in nobody's way."""
        due_at: datetime | None = self._now
        for need in taken_by(places, self._world.shapes[row.shape_id]):
            dated = self._date_on(row, need, [taken for taken in own if taken.node_id == need.node_id])
            if dated.is_lost:
                return dated
            due_at = None if dated.due_at is None or due_at is None else max(due_at, dated.due_at)
        return Dated(due_at)

    def _date_on(self, row: PendingUnit, need: Taken, own: Collection[Taken]) -> Dated:
        state = self._world.capacity.nodes.get(need.node_id)
        if state is None or not state.is_available or not state.usable.issuperset(need.devices):
            return Dated(None, is_lost=True)
        missing = set(need.devices) - state.free
        missing.difference_update(*(taken.devices for taken in own))
        cpus = state.node.cpus_milli - state.held_cpus_milli + sum(taken.cpus_milli for taken in own)
        memory = state.node.memory_mib - state.held_memory_mib + sum(taken.memory_mib for taken in own)
        due_at: datetime | None = self._now
        for end, holder in sorted(self._ends_on(need.node_id, row), key=_by_end):
            if not missing and cpus >= need.cpus_milli and memory >= need.memory_mib:
                break
            due_at = end
            missing.difference_update(holder.taken.devices)
            cpus += holder.taken.cpus_milli
            memory += holder.taken.memory_mib
        is_lost = bool(missing) or cpus < need.cpus_milli or memory < need.memory_mib
        return Dated(None if is_lost else due_at, is_lost)

    def _ends_on(self, node_id: int, row: PendingUnit) -> Iterator[tuple[datetime | None, Holder]]:
        running, queue = self._world.running, self._world.configuration.queues[row.queue_id]
        for holder in self.on_node(node_id):
            unit = running.get(holder.unit_id) or self._added_units[holder.unit_id]
            end = holder.frees_at
            if may_preempt(row, unit, queue):
                end = self._now
            elif end is not None and end <= self._now:
                end = self._now + LATE
            yield end, holder

    def _by_likely_end(self, unit_id: int) -> tuple[float, int]:
        unit = self._world.running.get(unit_id) or self._added_units[unit_id]
        likely = unit.likely_ends_at
        return math.inf if likely is None else likely.timestamp(), unit_id

    def _taken(self, unit_id: int) -> tuple[Taken, ...]:
        return self._world.holders.taken.get(unit_id) or self._added_taken.get(unit_id, ())


def _by_end(ends: tuple[datetime | None, Holder]) -> tuple[bool, float, int]:
    end, holder = ends
    return end is None, 0.0 if end is None else end.timestamp(), holder.unit_id


class Search:
    """The places that are free first for one unit: by giving back what is held, in the order of ends, until
    the unit fits, and then as little of it as will do. `occupied`: what counts as taken besides what is."""

    def __init__(
        self,
        world: World,
        row: PendingUnit,
        query: ShapeQuery,
        *,
        caps: Mapping[str, int],
        occupied: Sequence[Taken],
    ) -> None:
        self._capacity = world.capacity
        self._row = row
        self._query = query
        self._caps = caps
        self._occupied = occupied
        self._given: Sequence[tuple[Taken, ...]] = ()
        self._count = 0

    def run(self, given: Iterable[tuple[Taken, ...]]) -> tuple[Place, ...] | None:
        """None if it does not fit when all of `given` is free. The capacity is as it was."""
        return self._run_on_seats(given) if is_plain(self._query) else self.run_imagined(given)

    def run_imagined(self, given: Iterable[tuple[Taken, ...]]) -> tuple[Place, ...] | None:
        """For any query: by trying to place it on a capacity that more and more is given back to."""
        self._given = list(given)
        with self._imagined(self._occupied):
            least = self._least()
            if least is None:
                return None
            try:
                return self._find(least)
            finally:
                self._go_to(0)

    def _run_on_seats(self, given: Iterable[tuple[Taken, ...]]) -> tuple[Place, ...] | None:
        """Seats are counted until there are enough, and only nodes that matter then are imagined."""
        (role,) = self._query.roles
        if role.requests.gpus and self._caps.get(role.models[0], role.whole.gpus) < role.whole.gpus:
            return None
        sweep, freed = Sweep(self._query), dict[int, list[Taken]]()
        sweep.occupy(self._occupied)
        domains = sweep.with_room()
        for unit in () if domains else given:
            for taken in unit:
                freed.setdefault(taken.node_id, []).append(taken)
            if domains := sweep.give(unit):
                break
        if not domains:
            return None
        nodes = sweep.nodes_with_seats(domains)
        occupied = [
            taken for taken in self._occupied if taken.node_id in nodes or sweep.has_seats_now(taken.node_id)
        ]
        given_back = [taken for node_id in sorted(nodes) for taken in freed.get(node_id, ())]
        with self._imagined(occupied, given_back):
            shares = self._place()
            return None if shares is None else self._places_of(shares)

    @contextmanager
    def _imagined(self, occupied: Sequence[Taken], given: Sequence[Taken] = ()) -> Iterator[None]:
        """As if the one were held besides, and the other free."""
        self._capacity.imagine(occupied, is_free=False)
        self._capacity.imagine(given, is_free=True)
        try:
            yield
        finally:
            self._capacity.imagine(given, is_free=False)
            self._capacity.imagine(occupied, is_free=True)

    def _find(self, least: int) -> tuple[Place, ...] | None:
        # 1. In steps that grow, up to a count at which it fits.
        step, low, high = 1, least, least
        while (shares := self._place_at(high)) is None:
            if high == len(self._given):
                return None
            low, high, step = high + 1, min(len(self._given), high + step), step * 2
        # 2. The least count between the last at which it did not and this one.
        while low < high:
            middle = (low + high) // 2
            found = self._place_at(middle)
            if found is None:
                low = middle + 1
            else:
                high, shares = middle, found
        return self._places_of(shares)

    def _places_of(self, shares: tuple[Share, ...]) -> tuple[Place, ...]:
        return places_of(self._row, self._query, shares, self._capacity.nodes)

    def _place_at(self, count: int) -> tuple[Share, ...] | None:
        self._go_to(count)
        return self._place()

    def _place(self) -> tuple[Share, ...] | None:
        avoided = self._row.avoided_nodes
        if self._query.shape.is_gang:
            return place_gang(self._capacity, self._query, caps=self._caps, avoided=avoided)
        shares = place_members(self._capacity, self._query, caps=self._caps, want=1, avoided=avoided)
        return shares or None

    def _go_to(self, count: int) -> None:
        while self._count < count:
            self._capacity.imagine(self._given[self._count], is_free=True)
            self._count += 1
        while self._count > count:
            self._count -= 1
            self._capacity.imagine(self._given[self._count], is_free=False)

    def _least(self) -> int | None:
        """At how many the sums suffice; None if they never do."""
        short = [_Sum(check) for check in self._query.checks]
        for count, unit in enumerate(self._given):
            short = [each for each in short if not each.is_enough]
            if not short:
                return count
            for taken in unit:
                for each in short:
                    each.add(taken)
        return len(self._given) if all(each.is_enough for each in short) else None


class _Sum:
    """What is free on the nodes of a check, and what is given back there."""

    __slots__ = ("_check", "_cpus_milli", "_gpus", "_memory_mib")

    def __init__(self, check: Check) -> None:
        need, field = check.need, check.field
        self._check = check
        self._gpus = need.gpus - field.gpus()
        self._cpus_milli = need.cpus_milli - field.cpus_milli()
        self._memory_mib = need.memory_mib - field.memory_mib()

    @property
    def is_enough(self) -> bool:
        return self._gpus <= 0 and self._cpus_milli <= 0 and self._memory_mib <= 0

    def add(self, taken: Taken) -> None:
        membership = self._check.field.members.get(taken.node_id)
        if membership is None or not membership.state.is_available:
            return
        self._gpus -= len(membership.eligible.intersection(taken.devices))
        self._cpus_milli -= taken.cpus_milli
        self._memory_mib -= taken.memory_mib


def places_of(
    row: PendingUnit, query: ShapeQuery, shares: tuple[Share, ...], nodes: Mapping[int, NodeState]
) -> tuple[Place, ...]:
    """All of a gang; of a range those of its first member."""
    if query.shape.is_gang:
        return tuple(gang_places(query.shape, shares, nodes))
    (share,) = shares
    return tuple(Place(row.first_index, 0, share.node_id, devices) for devices in devices_of_members(share))
