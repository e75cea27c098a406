"""The World that the leader keeps between cycles: what waits, what runs, and what is free."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from service.admission.backlog import Backlog
from service.admission.capacity import Capacity
from service.admission.differences import NodeChanges, has_same_queues, node_changes
from service.admission.fallback import Fallbacks
from service.admission.feasible import Feasibility
from service.admission.guard_line import Guards
from service.admission.holders import Holders
from service.admission.holds import Taken, taken_by
from service.admission.kept import is_entitled, kept_of
from service.admission.line import Key
from service.admission.memory import Memory
from service.admission.own_use import OwnUse
from service.admission.past_use import PastUse
from service.admission.pauses import GuardPause, Pauses
from service.admission.plan import Admission, Resize
from service.admission.quota_tree import QuotaTree, Usage
from service.admission.surplus import part_of
from service.admission.terms import TermsOf, on_terms, terms_by_queue, whole_id
from service.admission.world import Changes, Configuration, Freed, PendingUnit, Queue, RunningUnit
from service.domain.claim import Claim, ClaimCause
from service.domain.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that decides, by value; `free` by node: devices, CPUs, memory. Shapes are whole: to which of its
    models a row has come follows from the instant."""

    configuration: Configuration
    pending: Mapping[int, PendingUnit]
    running: Mapping[int, RunningUnit]
    shapes: Mapping[int, Shape]
    order: Mapping[int, tuple[Key, ...]]
    claims: Mapping[int, Claim]
    pauses: Mapping[int, Pauses]
    used: Mapping[int, Mapping[str, int]]
    free: Mapping[int, tuple[frozenset[int], int, int]]


class World:
    """Start from `World.empty()`, apply a full load, then what the feed brings (W1, W2).

    Shapes stay once they were brought; a change whose shape is already in `shapes` need not bring
    it again. `capacity`, `quota`, `feasibility` and `memory` are what a cycle works on; no one else's.
    """

    def __init__(self, *, half_life_seconds: float = 0.0) -> None:
        self.past_use = PastUse(half_life_seconds)
        self.configuration = Configuration(version=0, queues={}, pools={}, nodes={})
        self.shapes: dict[int, Shape] = {}
        self.backlog = Backlog()
        self.running: dict[int, RunningUnit] = {}
        self.own_use = OwnUse(self.configuration, ())
        #: The same by queue, and those that are Evicting.
        self.running_in: dict[int, dict[int, RunningUnit]] = {}
        self.leaving: dict[int, RunningUnit] = {}
        #: Units that may grow or shrink now.
        self.resizable: dict[int, RunningUnit] = {}
        #: By the row that waits. Only a full load and the leader's own commits change them.
        self.claims: dict[int, Claim] = {}
        #: When guards stood still, by queue. The same of them.
        self.pauses: dict[int, Pauses] = {}
        self.guards = Guards()
        self.used: Usage = {}
        self.quota = QuotaTree(self.configuration, {})
        self.holders = Holders()
        #: Counts the changes of claims, and of what is kept for them.
        self.claims_revision = 0
        self.capacity = Capacity(self.configuration)
        self.feasibility = Feasibility(self.configuration)
        self.memory = Memory()
        self._fallbacks = Fallbacks()
        self._terms: TermsOf = {}
        #: Since when shapes were looked up last, their numbers may stand for other terms.
        self._has_new_terms = False

    @staticmethod
    def empty(*, half_life_seconds: float = 0.0) -> World:
        """`half_life_seconds`: by which use that is over decays; 0: it does not count."""
        return World(half_life_seconds=half_life_seconds)

    @property
    def pending(self) -> Mapping[int, PendingUnit]:
        return self.backlog.rows

    def could_fit(self, row: PendingUnit) -> bool:
        """Whether one unit of the row could ever be admitted, if nothing else were there."""
        shape_id = whole_id(row.shape_id)
        return self.feasibility.fits(
            shape_id,
            self.shapes[shape_id],
            self.quota,
            row.queue_id,
            is_within=not row.is_preemptible,
        )

    def apply(self, changes: Changes) -> tuple[Freed, ...]:
        """Replace states (W2). Returns the reservations that ended: those of units that are gone,
        wait again, or run another attempt. Applying the same changes again returns none."""
        self.shapes.update(changes.shapes)
        if changes.configuration is not None:
            self._set_terms(changes.configuration.queues)
        changes = self._on_terms(changes)
        self.claims.update(changes.claims)
        self.pauses.update(changes.pauses)
        self.past_use.add(changes.past_use)
        freed: list[Freed] = []
        for unit_id in sorted({*changes.gone, *changes.pending, *changes.running}):
            before, after = self.running.get(unit_id), changes.running.get(unit_id)
            if before is not None and before != after:
                self._end(before)
                freed.extend(_freed(before, after))
                if after is None or after.attempt != before.attempt:
                    # Once: an attempt that is not running here was counted with an earlier reading.
                    self.past_use.add(changes.charges.get((unit_id, before.attempt), ()))
        for unit_id, after in changes.running.items():
            if unit_id not in self.running:
                self._start(after)
        self._replace_rows(
            (*changes.gone, *changes.running),
            {key: row for key, row in changes.pending.items() if self.pending.get(key) != row},
        )
        if changes.configuration is not None:
            self._configure(changes.configuration)
        self._settle_claims()
        return tuple(freed)

    def admit(self, admissions: Iterable[Admission], admitted_at: datetime) -> None:
        """Apply admissions that the leader has committed. A range from which members were split
        off keeps waiting with its first index moved on and its version raised by one."""
        by_row: dict[int, list[Admission]] = defaultdict(list)
        for admission in admissions:
            by_row[admission.from_unit_id].append(admission)
        removed: list[int] = []
        added: dict[int, PendingUnit] = {}
        for row_id, admitted in by_row.items():
            row = self.pending[row_id]
            first_index = row.first_index + len(admitted)
            if self.shapes[row.shape_id].is_gang or first_index > row.last_index:
                removed.append(row_id)
            else:
                added[row_id] = replace(row, first_index=first_index, version=row.version + 1)
            for admission in admitted:
                self._start(running_of(row, admission, admitted_at))
        self._replace_rows(removed, added)
        self._settle_claims()

    def give_way(self, unit_id: int, evicting_until: datetime, *, preempted_at: tuple[datetime, ...]) -> None:
        """Apply an eviction that the leader has committed. The unit holds its places until it is gone."""
        before = self.running[unit_id]
        unit = replace(
            before,
            evicting_until=evicting_until,
            preempted_at=preempted_at,
            is_resizable=False,
        )
        self.resizable.pop(unit_id, None)
        taken = self.holders.taken[unit_id]
        self.holders.remove(before)
        self.holders.add(unit, taken)
        self.running[unit_id] = self.running_in[unit.queue_id][unit_id] = self.leaving[unit_id] = unit

    def resize(self, resizes: Iterable[Resize], resized_at: datetime) -> None:
        """Apply resizes that the leader has committed."""
        for resize in resizes:
            unit = self.running[resize.unit_id]
            until = resized_at + timedelta(seconds=unit.grace_seconds)
            self._end(unit)
            self._start(
                replace(
                    unit,
                    revision=resize.revision,
                    places=resize.places,
                    usage=resize.usage,
                    resized_at=resized_at,
                    is_resizable=False,
                    dropping=tuple(place.member for place in resize.dropped),
                    dropping_until=until if resize.dropped else None,
                )
            )
        self._settle_claims()

    def keep_claims(self, made: Iterable[Claim], *, ended: Iterable[int]) -> None:
        """Apply what the leader has committed of claims."""
        for unit_id in ended:
            self.claims.pop(unit_id, None)
        self.claims.update({claim.unit_id: claim for claim in made})
        self.claims_revision += 1
        self._settle_claims()

    def keep_pauses(self, made: Iterable[GuardPause], *, dropped: Iterable[tuple[int, datetime]]) -> None:
        """Apply what the leader has committed of pauses."""
        kept: dict[int, dict[datetime, GuardPause]] = {}
        gone = set(dropped)
        made = tuple(made)
        for queue_id in {*(pause.queue_id for pause in made), *(queue_id for queue_id, _ in gone)}:
            kept[queue_id] = {each.began_at: each for each in self.pauses.pop(queue_id, ())}
        for pause in made:
            kept[pause.queue_id][pause.began_at] = pause
        for queue_id, began_at in gone:
            kept[queue_id].pop(began_at, None)
            self.guards.forget(queue_id)
        for queue_id, by_beginning in kept.items():
            if by_beginning:
                self.pauses[queue_id] = tuple(by_beginning[at] for at in sorted(by_beginning))

    def move_to(self, now: datetime) -> None:
        """Whoever has waited for a model long enough at `now` waits for the next one, too. A cycle begins so;
        there is nothing else in the World that time alone changes."""
        moved = self._fallbacks.move_to(now)
        rows = {row_id: self._fallbacks.staged(self.pending[row_id], self.shapes) for row_id in moved}
        if rows:
            self._replace_rows((), rows)
            self._settle_claims()

    def next_wake(self, now: datetime) -> datetime | None:
        """When waiting alone changes what may be admitted: the next end of a backoff, the next instant before
        which a group was not to start, or from which it takes another model."""
        instants = self.backlog.next_wait_end(now), self._fallbacks.next_step(now)
        return min((each for each in instants if each is not None), default=None)

    def snapshot(self) -> Snapshot:
        pending = {row.id: replace(row, shape_id=whole_id(row.shape_id)) for row in self.pending.values()}
        used_shapes = {row.shape_id for row in pending.values()}
        used_shapes |= {unit.shape_id for unit in self.running.values()}
        return Snapshot(
            configuration=self.configuration,
            pending=pending,
            running=dict(self.running),
            shapes={shape_id: self.shapes[shape_id] for shape_id in used_shapes},
            order={
                queue_id: tuple(map(_whole_key, line.keys)) for queue_id, line in self.backlog.lines.items()
            },
            claims=dict(self.claims),
            pauses=dict(self.pauses),
            used={
                queue_id: {resource: amount for resource, amount in used.items() if amount}
                for queue_id, used in self.used.items()
                if any(used.values())
            },
            free={
                state.node.id: (state.free, state.free_cpus_milli, state.free_memory_mib)
                for state in self.capacity.nodes.values()
            },
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, World) and self.snapshot() == other.snapshot()

    __hash__ = None  # type: ignore[assignment]

    def _configure(self, configuration: Configuration) -> None:
        """Of what was found out the part that the difference does not touch goes on to be good."""
        before, self.configuration = self.configuration, configuration
        nodes = node_changes(before.nodes, configuration.nodes)
        is_same_tree = has_same_queues(before, configuration)
        is_followed = self._follow_nodes(before, nodes)
        if not is_same_tree:
            self.own_use = OwnUse(configuration, self.running.values())
        if not is_same_tree or not self.quota.has_devices_of(configuration, nodes):
            self.quota = QuotaTree(configuration, self.used)
            self.memory = Memory()
        elif is_followed:
            self.memory = self.memory.on_other_nodes(nodes)
        for unit in self.running.values():
            if unit.dropping and unit.evicting_until is None:
                self.leaving[unit.id] = self._leaving_part(unit)
        if is_followed:
            return
        self._has_new_terms = False
        self.memory = Memory()
        self.capacity = Capacity(configuration)
        self.feasibility = Feasibility(configuration)
        for unit in self.running.values():
            self._hold(unit)

    def _follow_nodes(self, before: Configuration, nodes: NodeChanges) -> bool:
        """Whether capacity and feasibility go on with these nodes; if not, others must be made."""
        after = self.configuration
        if self._has_new_terms or before.pools != after.pools or not before.nodes or not after.nodes:
            return False
        is_followed = self.capacity.follow(nodes, self.holders)
        return is_followed and self.feasibility.follow(after, nodes)

    def _set_terms(self, queues: Mapping[int, Queue]) -> None:
        """Give what waits and what runs the shapes that the queues' terms make of them."""
        terms = terms_by_queue(queues)
        if terms == self._terms:
            return
        self._terms, self._has_new_terms = terms, True
        rows = (on_terms(row, terms, self.shapes) for row in self.pending.values())
        changed = {
            row.id: self._fallbacks.staged(row, self.shapes)
            for row in rows
            if row is not self.pending[row.id]
        }
        self._replace_rows((), changed)
        for before in tuple(self.running.values()):
            unit = on_terms(before, terms, self.shapes)
            for units in (self.running, self.running_in[unit.queue_id], self.leaving, self.resizable):
                if unit.id in units:
                    units[unit.id] = replace(units[unit.id], shape_id=unit.shape_id)

    def _on_terms(self, changes: Changes) -> Changes:
        """With the shapes that units have here: of what waits, with the models that are considered now."""
        pending, running = changes.pending, changes.running
        if self._terms:
            pending = {key: on_terms(row, self._terms, self.shapes) for key, row in pending.items()}
            running = {key: on_terms(unit, self._terms, self.shapes) for key, unit in running.items()}
        pending = {key: self._fallbacks.staged(row, self.shapes) for key, row in pending.items()}
        return replace(changes, pending=pending, running=running)

    def _replace_rows(self, removed: Collection[int], added: Mapping[int, PendingUnit]) -> None:
        self._fallbacks.remove((*removed, *added))
        self._fallbacks.add(added.values(), self.shapes)
        self.backlog.replace(removed, added)

    def _settle_claims(self) -> None:
        """Keep what is free of the places of claims, older claims first, while their units are entitled."""
        if not self.claims and not self.capacity.kept:
            return
        kept: dict[int, tuple[Taken, ...]] = {}
        devices: dict[int, set[int]] = {}
        for claim in sorted(self.claims.values(), key=lambda claim: (claim.made_at, claim.unit_id)):
            row = self.pending.get(claim.unit_id)
            queue = None if row is None else self.configuration.queues.get(row.queue_id)
            if row is None or claim.cause is ClaimCause.PREEMPTION or not is_entitled(claim, row, queue):
                continue
            kept[claim.unit_id] = kept_of(
                claim,
                self.shapes[row.shape_id],
                nodes=self.capacity.nodes,
                on_node=self.holders.on_node,
                taken=devices,
            )
            for taken in kept[claim.unit_id]:
                devices.setdefault(taken.node_id, set()).update(taken.devices)
        if kept != self.capacity.kept:
            self.claims_revision += 1
            self.capacity.keep(kept)

    def _start(self, unit: RunningUnit) -> None:
        self.running[unit.id] = unit
        self.running_in.setdefault(unit.queue_id, {})[unit.id] = unit
        if unit.evicting_until is not None:
            self.leaving[unit.id] = unit
        elif unit.dropping:
            self.leaving[unit.id] = self._leaving_part(unit)
        if unit.is_resizable:
            self.resizable[unit.id] = unit
        used = self.used.setdefault(unit.queue_id, {})
        for resource, amount in unit.usage.items():
            used[resource] = used.get(resource, 0) + amount
        self.quota.charge(unit.queue_id, unit.usage)
        self.own_use.start(unit)
        self.holders.add(unit, taken_by(unit.places, self.shapes[unit.shape_id]))
        self._hold(unit)

    def _leaving_part(self, unit: RunningUnit) -> RunningUnit:
        """What an elastic unit is giving up."""
        gone = [place for place in unit.places if place.member in unit.dropping]
        shape, nodes = self.shapes[unit.shape_id], self.configuration.nodes
        return replace(part_of(unit, gone, shape=shape, nodes=nodes), evicting_until=unit.dropping_until)

    def _hold(self, unit: RunningUnit) -> None:
        for taken in self.holders.taken[unit.id]:
            self.capacity.hold(taken)

    def _end(self, unit: RunningUnit) -> None:
        del self.running[unit.id]
        del self.running_in[unit.queue_id][unit.id]
        self.leaving.pop(unit.id, None)
        self.resizable.pop(unit.id, None)
        used = self.used[unit.queue_id]
        for resource, amount in unit.usage.items():
            used[resource] -= amount
        self.quota.refund(unit.queue_id, unit.usage)
        self.own_use.end(unit)
        for taken in self.holders.taken[unit.id]:
            self.capacity.release(taken)
        self.holders.remove(unit)


def _whole_key(key: Key) -> Key:
    return (*key[:5], whole_id(key[5]), key[6])


def _freed(before: RunningUnit, after: RunningUnit | None) -> Iterator[Freed]:
    """What of its places a unit gave back."""
    if after is None or after.attempt != before.attempt:
        yield Freed(unit_id=before.id, attempt=before.attempt, shape_id=before.shape_id)
    elif gone := tuple(place for place in before.places if place not in after.places):
        yield Freed(unit_id=before.id, attempt=before.attempt, shape_id=before.shape_id, places=gone)


def running_of(row: PendingUnit, admission: Admission, admitted_at: datetime) -> RunningUnit:
    limit = row.time_limit_seconds
    return RunningUnit(
        id=admission.unit_id,
        group_id=admission.group_id,
        public_id=row.public_id,
        queue_id=admission.queue_id,
        shape_id=admission.shape_id,
        attempt=admission.attempt,
        revision=1,
        places=admission.places,
        usage=admission.usage,
        admitted_at=admitted_at,
        priority=row.priority,
        submitted_at=row.submitted_at,
        owner=row.owner,
        is_preemptible=row.is_preemptible,
        grace_seconds=row.grace_seconds,
        preempted_at=row.preempted_at,
        time_limit_at=None if limit is None else admitted_at + timedelta(seconds=limit),
    )
