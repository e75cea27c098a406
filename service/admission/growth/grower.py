"""Running groups grow into room that nobody who waits could use.

Members come beside those that run: on their nodes first, in their domain, with GPUs of the models that
their role has already. Each group is resized at most once in a while; a group of a stopped queue keeps its
size.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from service.admission.claims.kept_quota import KeptQuota, Stopped, rooms_of
from service.admission.claims.promised import Promised
from service.admission.elastic.sizes import Counts, counts_of, next_role
from service.admission.fit import Fitter
from service.admission.growth.room_to_grow import Awaited, find_awaited
from service.admission.held.holds import taken_by
from service.admission.nodes.binding import find_binding
from service.admission.nodes.query import NO_MODEL, RoleQuery, compile_query
from service.admission.placement.packing import pack
from service.admission.placement.placement import place_gang
from service.admission.placement.scratch import Scratch
from service.admission.plan import Blocker, Resize
from service.admission.policy import Policy
from service.admission.quota.blockers import cohort_numbers, quota_blocker, quota_numbers
from service.admission.quota.book import QuotaBook
from service.admission.reasons.findings import explain_scattered, explain_shortages
from service.admission.reasons.kept_from import kept_numbers, quota_kept
from service.admission.resident import World
from service.admission.waiting.eligibility import is_open
from service.admission.world import RunningUnit
from service.domain.node import Place
from service.domain.reasons import Code
from service.domain.resources import CPUS, MEMORY
from service.domain.shape import Shape

_TURN = (Blocker(code=Code.WAITING_FOR_TURN),)


@dataclass(slots=True)
class Growth:
    """`blocked`: why units that run have not all of their members, by unit; `numbers` are what that names."""

    resizes: list[Resize] = field(default_factory=list)
    blocked: dict[int, tuple[Blocker, ...]] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)


class Grower:
    """Grows units of one cycle, after everybody who waits was fitted."""

    def __init__(
        self,
        world: World,
        now: datetime,
        *,
        policy: Policy,
        fitter: Fitter,
        quota: QuotaBook,
        promised: Promised,
        kept: KeptQuota,
    ) -> None:
        self._world = world
        self._now = now
        self._interval = timedelta(seconds=policy.resize_interval_seconds)
        self._fitter = fitter
        self._quota = quota
        self._promised = promised
        self._kept = kept
        self._awaited = Awaited()
        self._growth = Growth()
        #: Units that got no more members of a role, and what claims left to them.
        self._closed: list[tuple[RunningUnit, int, tuple[Stopped, ...]]] = []

    def grow(
        self, *, without: Collection[int], leaving: Collection[int] = (), awaited: Collection[int] = ()
    ) -> Growth:
        """Rows `without` do not wait any more; units `leaving` are resized or evicted in this cycle, for the
        surplus of those `awaited` somebody waits: to grow would put it off."""
        units = [unit for unit in self._world.resizable.values() if self._may_grow(unit, leaving)]
        if units:
            self._awaited = find_awaited(
                self._world, self._now, fitter=self._fitter, quota=self._quota, without=without
            )
        for unit in sorted(units, key=lambda each: (-each.priority, each.submitted_at, each.id)):
            if unit.id in awaited:
                self._growth.blocked[unit.id] = _TURN
            else:
                self._grow(unit)
        if self._closed:
            with self._promised.told():
                for unit, role, kept in self._closed:
                    self._growth.blocked[unit.id] = self._blockers(unit, role=role, kept=kept)
        return self._growth

    def _may_grow(self, unit: RunningUnit, leaving: Collection[int]) -> bool:
        shape = self._world.shapes[unit.shape_id]
        return (
            unit.id not in leaving
            and len(unit.places) < shape.member_count
            and is_open(self._world.configuration.queues.get(unit.queue_id))
        )

    def _grow(self, unit: RunningUnit) -> None:
        if unit.resized_at is not None and unit.resized_at + self._interval > self._now:
            until = (unit.resized_at + self._interval).isoformat(timespec="seconds")
            self._growth.blocked[unit.id] = (Blocker(code=Code.BACKING_OFF, scope={"until": until}),)
            return
        shape = self._world.shapes[unit.shape_id]
        limits = self._fitter.limits.rooms(unit)
        for resource, left in rooms_of(self._kept.left_to_grow(unit)).items():
            limits[resource] = min(left, limits.get(resource, left))
        seats = _Seats(self._world, unit, quota=self._quota, awaited=self._awaited, limits=limits)
        counts = counts_of(shape, unit.places)
        closed: list[int] = []
        while (role := next_role(shape, counts, closed=closed)) is not None:
            if seats.add(role):
                counts = _one_more(counts, role)
            else:
                closed.append(role)
        added = tuple(_numbered(shape, unit, scratch=seats.scratch))
        if added:
            self._resize(unit, added=added, more=seats.usage())
        if closed:
            self._closed.append((unit, closed[0], self._kept.left_to_grow(unit)))

    def _resize(self, unit: RunningUnit, *, added: tuple[Place, ...], more: dict[str, int]) -> None:
        self._world.capacity.take(taken_by(added, self._world.shapes[unit.shape_id]))
        self._quota.charge(unit.queue_id, more)
        self._fitter.limits.charge(unit, more)
        self._growth.resizes.append(
            Resize(
                unit_id=unit.id,
                attempt=unit.attempt,
                revision=unit.revision + 1,
                pool_id=self._world.capacity.nodes[added[0].node_id].node.pool_id,
                places=tuple(sorted((*unit.places, *added), key=lambda place: place.member)),
                added=added,
                usage={name: unit.usage.get(name, 0) + more.get(name, 0) for name in {**unit.usage, **more}},
                usage_without=unit.usage,
            )
        )

    def _blockers(self, unit: RunningUnit, *, role: int, kept: Iterable[Stopped]) -> tuple[Blocker, ...]:
        """What keeps it from one more member of the role: what would keep a group of one like it."""
        shape = self._world.shapes[unit.shape_id]
        capacity, queue = self._world.capacity, self._world.configuration.queues[unit.queue_id]
        one = replace(shape, roles=(replace(shape.roles[role], count=1, min_count=1),), sizing=None)
        query = compile_query(capacity, one)
        bounds = self._quota.bounds(queue.id, self._quota.exceeded(queue.id, query))
        if bounds:
            self._growth.numbers.update(quota_numbers(self._quota, queue.id, bounds))
            self._growth.numbers.update(cohort_numbers(self._quota.tree, bounds))
            return tuple(quota_blocker(self._world.configuration, queue, query, each) for each in bounds)
        for stopped in kept:
            if query.most.get(stopped.resource, 0) > stopped.left:
                self._growth.numbers.update(kept_numbers(queue.id, stopped, of=unit.id))
                return (quota_kept(self._world, queue, query, stopped, of=unit.id),)
        if place_gang(capacity, query, caps={}) is not None:
            return _TURN
        short = explain_shortages(query, self._growth.numbers)
        return short or explain_scattered(query, find_binding(query), self._growth.numbers)


class _Seats:
    """Members that one unit gets, one after the other."""

    def __init__(
        self,
        world: World,
        unit: RunningUnit,
        *,
        quota: QuotaBook,
        awaited: Awaited,
        limits: Mapping[str, int],
    ) -> None:
        """`limits`: how much more its owner and its group may hold, and what is not kept for others."""
        query = world.capacity.query(unit.shape_id, world.shapes[unit.shape_id])
        short = awaited.quota.get(unit.queue_id, frozenset())
        caps = {**quota.caps(unit.queue_id, query), **dict.fromkeys(short - {CPUS, MEMORY}, 0)}
        for resource, room in limits.items():
            if resource in query.models:
                caps[resource] = min(room, caps.get(resource, room))
        self._world = world
        self._roles = {role.position: role for role in query.roles}
        self._rooms = {
            resource: 0 if resource in short else quota.headroom(unit.queue_id, resource)
            for resource in (CPUS, MEMORY)
        }
        for resource in self._rooms.keys() & limits.keys():
            of_queue, own = self._rooms[resource], limits[resource]
            self._rooms[resource] = own if of_queue is None else min(of_queue, own)
        self._nodes: dict[int, dict[int, str]] = {}
        for place in unit.places:
            self._nodes.setdefault(place.role, {}).setdefault(place.node_id, self._model_of(place))
        self.scratch = Scratch(world.capacity.nodes, caps, awaited.nodes)

    def add(self, position: int) -> bool:
        """Seat one more member of the role, if there is room."""
        role, nodes = self._roles[position], self._nodes[position]
        needs = {CPUS: role.requests.cpus_milli, MEMORY: role.requests.memory_mib}
        rooms = {name: room for name, room in self._rooms.items() if room is not None}
        if any(needs[name] > room for name, room in rooms.items()):
            return False
        choices = [choice for choice, model in enumerate(role.models) if model in nodes.values()]
        if not any(self._seat(role, choice, nodes=nodes) for choice in choices):
            return False
        for name, room in rooms.items():
            self._rooms[name] = room - needs[name]
        share = self.scratch.shares[-1]
        nodes.setdefault(share.node_id, share.model)
        return True

    def usage(self) -> dict[str, int]:
        """What all of them take, by resource."""
        shares = self.scratch.shares
        usage = {
            CPUS: sum(share.cpus_milli for share in shares),
            MEMORY: sum(share.memory_mib for share in shares),
        }
        for share in shares:
            if share.model != NO_MODEL:
                usage[share.model] = usage.get(share.model, 0) + len(share.devices)
        return usage

    def _seat(self, role: RoleQuery, choice: int, *, nodes: dict[int, str]) -> bool:
        scratch, model, members = self.scratch, role.models[choice], role.fields[choice].members
        own = [members[node_id] for node_id in nodes if node_id in members]
        if not own or not scratch.bound(role, model, 1):
            return False
        for membership in own:
            is_free = membership.state.is_available and membership.state.node.id not in scratch.avoided
            if is_free and scratch.seats(role, membership, 1):
                scratch.take(role, model, membership, 1)
                return True
        field = role.fields[choice]
        stock = field.stocks[own[0].stock.domain]
        return bool(pack(role, choice, field=field, stock=stock, scratch=scratch, want=1))

    def _model_of(self, place: Place) -> str:
        state = self._world.capacity.nodes.get(place.node_id)
        if state is None or not place.devices:
            return NO_MODEL
        return next((one.model for one in state.node.devices if one.index == place.devices[0]), NO_MODEL)


def _one_more(counts: Counts, role: int) -> Counts:
    return (*counts[:role], counts[role] + 1, *counts[role + 1 :])


def _numbered(shape: Shape, unit: RunningUnit, *, scratch: Scratch) -> Iterator[Place]:
    """The lowest numbers of each role that are free."""
    known = {place.member for place in unit.places}
    free = [
        iter([number for number in range(first, first + role.count) if number not in known])
        for role, first in zip(shape.roles, shape.first_members, strict=True)
    ]
    for share in scratch.shares:
        yield Place(next(free[share.role]), share.role, share.node_id, tuple(sorted(share.devices)))
