"""Which running units are worth a look for a claimant: cheap answers before any place is sought."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import inf

from service.admission.entitlement import Claimant
from service.admission.field import Field
from service.admission.holds import Taken, taken_by
from service.admission.policy import Policy
from service.admission.price import price_of
from service.admission.query import NO_MODEL, ShapeQuery
from service.admission.resident import World
from service.admission.surplus import part_of, surplus_of
from service.admission.trial import Candidate
from service.admission.world import PendingUnit, Queue, RunningUnit
from service.domain.node import Place
from service.domain.queue import PreemptWithin, Reclaim
from service.domain.unit import MAX_MEMBERS

_DAY = timedelta(days=1)
#: No unit has a negative id, so that of a member is below 0; the last member is the newest.
_ABOVE_ALL = 1 << 90


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
        self._now = now
        self._chosen: set[int] = set()
        self._made: dict[int, Candidate] = {}
        self._surpluses: dict[int, tuple[Candidate, ...]] = {}
        self._spared: dict[int, frozenset[int]] = {}
        self._lowest: dict[int, float] = {}
        self._by_root = world.quota.borrowers()
        self._held: dict[tuple[int, float], Source] = {}

    def forget(self, units: Iterable[RunningUnit]) -> None:
        self._chosen.update(unit.id for unit in units)

    def may_be_for(self, queue_id: int) -> bool:
        """As `may_have`, of any row of the queue."""
        queue, heads = self._world.configuration.queues.get(queue_id), self._world.backlog.heads_in[queue_id]
        if queue is None:
            return False
        policy, best = queue.policy, -heads[0][0]
        if policy.preempt_within is PreemptWithin.LOWER_PRIORITY and self._lowest_in(queue_id) < best:
            return True
        may_reclaim = policy.reclaim is not Reclaim.NEVER and bool(self._borrowers(queue_id))
        return may_reclaim and next(self._sources(queue, best), None) is not None

    def may_have(self, row: PendingUnit) -> bool:
        """False if it is plain that nobody has to give way to the row."""
        queue = self._world.configuration.queues.get(row.queue_id)
        if queue is None or row.has_never_run:
            return False
        return next(self._sources(queue, row.priority), None) is not None

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
        waited = (self._now - (row.waiting_since or row.submitted_at)).total_seconds()
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
            for candidate in (() if is_whole else self._surplus(unit)) or (self._candidate(unit),)
            if any(candidate.unit.usage.get(resource) for resource in short) or _is_on(candidate, fields)
        ]

    def _is_open(self, unit: RunningUnit) -> bool:
        return unit.is_preemptible and unit.evicting_until is None and unit.id not in self._chosen

    def _sources(self, queue: Queue, priority: float) -> Iterator[int]:
        """Queues with running units from which this one might take something: itself, and those of its tree
        that hold more than their nominal quota of something."""
        policy = queue.policy
        if policy.preempt_within is PreemptWithin.LOWER_PRIORITY and self._lowest_in(queue.id) < priority:
            yield queue.id
        if policy.reclaim is Reclaim.NEVER or queue.cohort_id is None:
            return
        is_by_priority = policy.reclaim is Reclaim.LOWER_PRIORITY
        for other_id in self._borrowers(queue.id):
            if other_id != queue.id and (not is_by_priority or self._lowest_in(other_id) < priority):
                yield other_id

    def _borrowers(self, queue_id: int) -> Sequence[int]:
        """Of its tree, when the cycle began: whom the cycle itself lets borrow gives nothing back in it."""
        root = self._world.quota.queues[queue_id].root
        return () if root.is_queue else self._by_root.get(root.id, ())

    def _lowest_in(self, queue_id: int) -> float:
        """The lowest priority of what runs in the queue and may be preempted, when the cycle began."""
        if queue_id not in self._lowest:
            running, lowest = self._world.running_in.get(queue_id, {}), inf
            for unit in running.values():
                if unit.priority < lowest and self._is_open(unit):
                    lowest = unit.priority
            self._lowest[queue_id] = lowest
        return self._lowest[queue_id]

    def _candidate(self, unit: RunningUnit) -> Candidate:
        """Whole."""
        known = self._made.get(unit.id)
        if known is None:
            cost = round(price_of(unit, self._policy, self._now) * 1000)
            frees = taken_by(unit.places, self._world.shapes[unit.shape_id])
            known = self._made[unit.id] = Candidate(unit, frees, cost)
        return known

    def _surplus(self, unit: RunningUnit) -> tuple[Candidate, ...]:
        """Members that an elastic unit can give up."""
        if not unit.is_resizable:
            return ()
        known = self._surpluses.get(unit.id)
        if known is None:
            shape = self._world.shapes[unit.shape_id]
            surplus = surplus_of(unit, shape, policy=self._policy, now=self._now)
            known = self._surpluses[unit.id] = tuple(self._member(unit, place) for place in surplus)
        return known

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
            policy = self._world.configuration.queues[queue_id].policy
            least, most = timedelta(seconds=policy.min_runtime_seconds), policy.evictions_per_day
            spared: set[int] = set()
            for unit in self._world.running_in.get(queue_id, {}).values():
                if is_young := self._now - unit.admitted_at < least:
                    spared.update(each.unit.id for each in self._surplus(unit))
                if is_young or (most is not None and self._preemptions_of(unit) >= most):
                    spared.add(unit.id)
            self._spared[queue_id] = frozenset(spared)
        return self._spared[queue_id]

    def _preemptions_of(self, unit: RunningUnit) -> int:
        return sum(self._now - at < _DAY for at in unit.preempted_at)


def _is_on(candidate: Candidate, fields: Iterable[Field]) -> bool:
    """Whether it holds something, if only CPUs or memory, on a node that one of the fields allows."""
    return any(taken.node_id in each.members for each in fields for taken in candidate.frees)
