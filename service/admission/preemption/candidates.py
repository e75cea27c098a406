"""Which running units are worth a look for a claimant, now or later: cheap answers before any place is
sought."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import inf

from service.admission.elastic.surplus import part_of, rests_until, surplus_after, surplus_of
from service.admission.held.holds import Taken, taken_by
from service.admission.held.priorities import may_go
from service.admission.nodes.field import Field
from service.admission.nodes.query import NO_MODEL, ShapeQuery
from service.admission.policy import Policy
from service.admission.preemption.price import price_of
from service.admission.preemption.protection import is_over, protections
from service.admission.preemption.trial import Candidate
from service.admission.quota.entitlement import Claimant
from service.admission.resident import World
from service.admission.waiting.guard_line import waits_since
from service.admission.waiting.ranks import priority_of
from service.admission.world import PendingUnit, Queue, RunningUnit
from service.domain.node import Place
from service.domain.preemption import Entitlement, Protection
from service.domain.queue import PreemptWithin, Reclaim
from service.domain.unit import MAX_MEMBERS

#: No unit has a negative id, so that of a member is below 0; the last member is the newest.
_ABOVE_ALL = 1 << 90
_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(slots=True)
class Source:
    """What some units hold together, by node, and by quota resource."""

    nodes: dict[int, list[Taken]] = field(default_factory=dict)
    usage: Counter[str] = field(default_factory=Counter)

    def add(self, unit: RunningUnit, taken: Iterable[Taken]) -> None:
        self.usage.update(unit.usage)
        for each in taken:
            self.nodes.setdefault(each.node_id, []).append(each)


class Candidates:
    """Of one cycle. What was chosen is told by `forget` and is no candidate any more."""

    def __init__(self, world: World, policy: Policy, now: datetime) -> None:
        self._world = world
        self._policy = policy
        self._now = self._began_at = now
        #: Who was resized may be resized again from its instant on, if that is not after this one.
        self._rested_by = now
        self._chosen: set[int] = set()
        self._shrinking: dict[int, Collection[int]] = {}
        self._made: dict[int, Candidate] = {}
        self._surpluses: dict[int, tuple[Candidate, ...]] = {}
        self._spared: dict[int, frozenset[int]] = {}
        self._ends: dict[int, Collection[datetime] | None] = {}
        #: By queue and priority of a row, whether it might take something of anybody.
        self._is_any: dict[tuple[int, int], bool] = {}
        self._by_root = world.quota.borrowers()
        self._held: dict[tuple[int, float], Source] = {}

    def forget(self, units: Iterable[RunningUnit]) -> None:
        self._chosen.update(unit.id for unit in units)

    def note_shrinking(self, unit_id: int, dropped: Iterable[Place]) -> None:
        """This cycle makes the unit give up these places; it is told by `forget`, too."""
        self._shrinking[unit_id] = frozenset(place.member for place in dropped)

    def at(self, instant: datetime) -> Candidates:
        """As they will be then, if nothing but time changes."""
        later = self._copy()
        later._now = later._rested_by = instant
        return later

    def rested(self) -> Candidates:
        """As if none had been resized before, nor were in this cycle."""
        rested = self._copy()
        rested._rested_by = self._now + timedelta(seconds=self._policy.resize_interval_seconds)
        return rested

    def count(self, row: PendingUnit) -> int:
        """How many run where it might take something."""
        sources = self._sources(self._world.configuration.queues[row.queue_id], row.priority)
        return sum(len(self._world.running_in.get(source, ())) for source in sources)

    def ends(self, row: PendingUnit) -> list[datetime]:
        """Instants to come, in turn: from each somebody of whom the row might take something is kept no more,
        or the row does not wait for that any more."""
        found, is_any = set[datetime](), False
        for source in self._sources(self._world.configuration.queues[row.queue_id], row.priority):
            ends = self._ends_in(source)
            is_any, found = is_any or ends is not None, found.union(ends or ())
        if is_any:
            found.add(self._patience_of(row))
        return sorted(end for end in found if end > self._now)

    def free_at(self, row: PendingUnit, candidate: Candidate, right: Entitlement) -> datetime:
        """From when on the row may take the unit, or the member of one, by the right."""
        rests, ends = self._now, [self._now]
        for protection, until in self.keeping(candidate):
            if protection is Protection.RESIZE_INTERVAL:
                rests = until or _NEVER
            else:
                ends.append(until or _NEVER)
        end = max(ends)
        return max(rests, min(end, self._patience_of(row)) if right is Entitlement.RECLAIM else end)

    def _patience_of(self, row: PendingUnit) -> datetime:
        return waits_since(row) + timedelta(seconds=self._policy.reclaim_delay_seconds)

    def _ends_in(self, queue_id: int) -> Collection[datetime] | None:
        """When its units are kept no more, each by one rule, and when their surplus may be given up; None if
        none is kept."""
        if queue_id not in self._ends:
            policy = self._world.configuration.queues[queue_id].policy
            kept, ends = self._spared_in(queue_id) & self._world.running.keys(), set[datetime]()
            for unit in map(self._world.running.__getitem__, kept):
                rests = self._rests_until(unit) if unit.resized_at is not None else None
                untils = (*(until for _, until in protections(unit, policy)), rests)
                ends.update(until for until in untils if until is not None)
            self._ends[queue_id] = ends if kept else None
        return self._ends[queue_id]

    def keeping(self, candidate: Candidate) -> Iterator[tuple[Protection, datetime | None]]:
        """What keeps it from giving way when the cycle is made."""
        unit = candidate.of or candidate.unit
        policy = self._world.configuration.queues[unit.queue_id].policy
        for protection, until in protections(unit, policy):
            is_whole = candidate.of is None or protection is Protection.MIN_RUNTIME
            if is_whole and not is_over(until, self._began_at):
                yield protection, until
        until = self._rests_until(unit) if candidate.of is not None else None
        if until is not None and until > self._began_at:
            yield Protection.RESIZE_INTERVAL, until

    def has_resting(self, row: PendingUnit) -> bool:
        """Whether anybody from whom the row might take something was resized a short while ago."""
        queue = self._world.configuration.queues[row.queue_id]
        untils = (
            self._rests_until(unit)
            for source in self._sources(queue, row.priority)
            for unit in self._world.running_in.get(source, {}).values()
            if unit.resized_at is not None or unit.id in self._shrinking
        )
        return any(until is not None and until > self._began_at for until in untils)

    def _copy(self) -> Candidates:
        other = copy(self)
        other._made, other._surpluses, other._spared, other._held = {}, {}, {}, {}
        other._ends = {}
        return other

    def may_be_for(self, queue_id: int) -> bool:
        """As `may_have`, of any row of the queue."""
        queue, heads = self._world.configuration.queues.get(queue_id), self._world.backlog.heads_in[queue_id]
        if queue is None:
            return False
        policy, best = queue.policy, priority_of(heads[0][0])
        if (
            policy.preempt_within is PreemptWithin.LOWER_PRIORITY
            and self._world.priorities.lowest_in(queue_id) < best
        ):
            return True
        may_reclaim = policy.reclaim is not Reclaim.NEVER and bool(self._borrowers(queue_id))
        return may_reclaim and next(self._sources(queue, best), None) is not None

    def may_have(self, row: PendingUnit) -> bool:
        """False if it is plain that nobody has to give way to the row."""
        if row.has_never_run:
            return False
        key = row.queue_id, row.priority
        if key not in self._is_any:
            queue = self._world.configuration.queues.get(row.queue_id)
            self._is_any[key] = (
                queue is not None and next(self._sources(queue, row.priority), None) is not None
            )
        return self._is_any[key]

    def sources(self, row: PendingUnit) -> list[Source]:
        """What those hold together of whom the row might take something."""
        own = self.own_source(row)
        return [*([] if own is None else [own]), *self.other_sources(row)]

    def own_source(self, row: PendingUnit) -> Source | None:
        """Of its own queue."""
        queue = self._world.configuration.queues[row.queue_id]
        is_any = row.queue_id in self._sources(queue, row.priority)
        return self._source(row.queue_id, row.priority) if is_any else None

    def other_sources(self, row: PendingUnit) -> list[Source]:
        queue = self._world.configuration.queues[row.queue_id]
        below = row.priority if queue.policy.reclaim is Reclaim.LOWER_PRIORITY else inf
        sources = self._sources(queue, row.priority)
        return [self._source(each, below) for each in sources if each != row.queue_id]

    def _source(self, queue_id: int, below: float) -> Source:
        """What units of the queue hold that may be preempted and have a lower priority."""
        known = self._held.get((queue_id, below))
        if known is None:
            known = self._held[queue_id, below] = Source()
            for unit in self._world.running_in.get(queue_id, {}).values():
                if self._is_open(unit) and unit.priority < below:
                    known.add(unit, self._world.holders.taken[unit.id])
        return known

    def claimant(self, row: PendingUnit, usage: Mapping[str, int]) -> Claimant:
        queue = self._world.configuration.queues[row.queue_id]
        waited = (self._now - waits_since(row)).total_seconds()
        return Claimant(
            row=row,
            queue=queue,
            usage=usage,
            spared=frozenset().union(
                *(self._spared_in(source) for source in self._sources(queue, row.priority))
            ),
            is_patient=waited < self._policy.reclaim_delay_seconds,
        )

    def of(self, claimant: Claimant, query: ShapeQuery, *, is_whole: bool) -> list[Candidate]:
        """Units from which the claimant may take something, and that hold what it lacks: places on nodes that
        it could use, or quota. Unless `is_whole`, elastic ones with a surplus give up no more than that."""
        tree, usage, queue_id = self._world.quota, claimant.usage, claimant.row.queue_id
        fields = [
            each
            for role in query.roles
            for model, each in zip(role.models, role.fields, strict=True)
            if model == NO_MODEL or usage.get(model)
        ]
        short = [
            resource
            for resource, amount in usage.items()
            if amount and (room := tree.available(queue_id, resource)) is not None and room < amount
        ]
        return [
            candidate
            for source in self._sources(claimant.queue, claimant.row.priority)
            for unit in self._world.running_in.get(source, {}).values()
            if self._is_open(unit)
            for candidate in (() if is_whole else self._surplus(unit)) or self._as_a_whole(unit)
            if any(candidate.unit.usage.get(resource) for resource in short) or _is_on(candidate, fields)
        ]

    def _is_open(self, unit: RunningUnit) -> bool:
        is_left = unit.id not in self._chosen or (
            unit.id in self._shrinking and self._rested_by > self._began_at
        )
        return may_go(unit) and is_left

    def _sources(self, queue: Queue, priority: float) -> Iterator[int]:
        """Queues with running units from which this one might take something: itself, and those of its tree
        that hold more than their nominal quota of something."""
        policy = queue.policy
        if (
            policy.preempt_within is PreemptWithin.LOWER_PRIORITY
            and self._world.priorities.lowest_in(queue.id) < priority
        ):
            yield queue.id
        if policy.reclaim is Reclaim.NEVER or queue.cohort_id is None:
            return
        is_by_priority = policy.reclaim is Reclaim.LOWER_PRIORITY
        for other_id in self._borrowers(queue.id):
            if other_id != queue.id and (
                not is_by_priority or self._world.priorities.lowest_in(other_id) < priority
            ):
                yield other_id

    def _borrowers(self, queue_id: int) -> Sequence[int]:
        """Of its tree, when the cycle began: whom the cycle itself lets borrow gives nothing back in it."""
        root = self._world.quota.queues[queue_id].root
        return () if root.is_queue else self._by_root.get(root.id, ())

    def _as_a_whole(self, unit: RunningUnit) -> tuple[Candidate, ...]:
        """All that it does not give up anyway; nothing of one that is chosen already."""
        if unit.id in self._chosen:
            return ()
        known = self._made.get(unit.id)
        if known is None:
            cost = round(price_of(unit, self._policy, self._now) * 1000)
            left = unit
            if unit.dropping:
                places = [place for place in unit.places if place.member not in unit.dropping]
                shape, nodes = self._world.shapes[unit.shape_id], self._world.configuration.nodes
                left = part_of(unit, places, shape=shape, nodes=nodes)
            frees = taken_by(left.places, self._world.shapes[unit.shape_id])
            known = self._made[unit.id] = Candidate(left, frees, cost)
        return (known,)

    def _surplus(self, unit: RunningUnit) -> tuple[Candidate, ...]:
        """Members that an elastic unit can give up."""
        if not unit.is_resizable and unit.resized_at is None:
            return ()
        known = self._surpluses.get(unit.id)
        if known is None:
            known = self._surpluses[unit.id] = tuple(
                self._member(unit, place) for place in self._places_given_up(unit)
            )
        return known

    def _places_given_up(self, unit: RunningUnit) -> tuple[Place, ...]:
        shape, until = self._world.shapes[unit.shape_id], self._rests_until(unit)
        if until is None or until <= self._began_at:
            return surplus_of(unit, shape, policy=self._policy, now=self._now)
        if until > self._rested_by:
            return ()
        return surplus_after(unit, shape, without=self._shrinking.get(unit.id, ()))

    def _rests_until(self, unit: RunningUnit) -> datetime | None:
        """Before then it is not resized again."""
        if unit.id in self._shrinking:
            return self._began_at + timedelta(seconds=self._policy.resize_interval_seconds)
        return rests_until(unit, self._world.shapes[unit.shape_id], policy=self._policy)

    def _member(self, unit: RunningUnit, place: Place) -> Candidate:
        member = part_of(
            unit,
            [place],
            shape=self._world.shapes[unit.shape_id],
            nodes=self._world.configuration.nodes,
        )
        member = replace(member, id=unit.id * MAX_MEMBERS + place.member - _ABOVE_ALL)
        cost = round(len(place.devices) * self._policy.restart_cost_seconds * 1000)
        return Candidate(member, taken_by([place], self._world.shapes[unit.shape_id]), cost, unit)

    def _spared_in(self, queue_id: int) -> frozenset[int]:
        """Those that have not run long enough, with their surplus; and those that were preempted often enough
        during the last day: they may still be resized, as often as any other."""
        if queue_id not in self._spared:
            policy, spared = self._world.configuration.queues[queue_id].policy, set[int]()
            has_any = policy.min_runtime_seconds or policy.evictions_per_day is not None
            for unit in self._world.running_in.get(queue_id, {}).values() if has_any else ():
                for protection, until in protections(unit, policy):
                    if is_over(until, self._now):
                        continue
                    spared.add(unit.id)
                    if protection is Protection.MIN_RUNTIME:
                        spared.update(each.unit.id for each in self._surplus(unit))
            self._spared[queue_id] = frozenset(spared)
        return self._spared[queue_id]


def _is_on(candidate: Candidate, fields: Iterable[Field]) -> bool:
    """Whether it holds something, if only CPUs or memory, on a node that one of the fields allows."""
    return any(taken.node_id in each.members for each in fields for taken in candidate.frees)
