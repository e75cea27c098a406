"""The World that the leader keeps between cycles: what waits, what runs, and what is free."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from service.admission.differences import NodeChanges, node_changes
from service.admission.held.running import freed_of, running_of
from service.admission.nodes.capacity import Capacity
from service.admission.pauses import GuardPause
from service.admission.plan import Admission, Resize
from service.admission.state.booked import Booked
from service.admission.state.feasible import Feasibility
from service.admission.state.memory import Memory
from service.admission.state.snapshot import Snapshot, snapshot_of
from service.admission.waiting.ranks import orders_of
from service.admission.waiting.terms import on_terms, terms_by_queue
from service.admission.world import Changes, Configuration, Freed, PendingUnit, Queue
from service.domain.claim import Claim


class World(Booked):
    """Start from `World.empty()`, apply a full load, then what the feed brings (W1, W2).

    Shapes stay once they were brought; a change whose shape is already in `shapes` need not bring
    it again. `capacity`, `quota`, `feasibility` and `memory` are what a cycle works on; no one else's.
    """

    @staticmethod
    def empty(*, half_life_seconds: float = 0.0) -> World:
        """`half_life_seconds`: by which use that is over decays; 0: it does not count."""
        return World(half_life_seconds=half_life_seconds)

    def apply(self, changes: Changes) -> tuple[Freed, ...]:
        """Replace states (W2). Returns the reservations that ended: those of units that are gone,
        wait again, or run another attempt. Applying the same changes again returns none."""
        self.shapes.update(changes.shapes)
        if changes.configuration is not None:
            self._set_terms(changes.configuration.queues)
            self.backlog.order_queues(orders_of(changes.configuration.queues))
        changes = self._on_terms(changes)
        self.claims.update(changes.claims)
        self.pauses.update(changes.pauses)
        self.past_use.add(changes.past_use)
        freed: list[Freed] = []
        for unit_id in sorted({*changes.gone, *changes.pending, *changes.running}):
            before, after = self.running.get(unit_id), changes.running.get(unit_id)
            if before is not None and before != after:
                self._end(before)
                freed.extend(freed_of(before, after))
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
        self.priorities.remove(before)
        # It holds as much, but nobody else may take it: what was found out of its queue may be otherwise.
        self.quota.charge(unit.queue_id, {})
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

    def keep_claims(self, made: Collection[Claim], *, ended: Collection[int]) -> None:
        """Apply what the leader has committed of claims."""
        if not made and not ended:
            return
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
        return snapshot_of(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, World) and self.snapshot() == other.snapshot()

    __hash__ = None  # type: ignore[assignment]

    def _configure(self, configuration: Configuration) -> None:
        """Of what was found out the part that the difference does not touch goes on to be good."""
        before, self.configuration = self.configuration, configuration
        nodes = node_changes(before.nodes, configuration.nodes)
        is_followed = self._follow_nodes(before, nodes)
        self.own_use = self.own_use.follow(configuration, self.running.values())
        tree_changes = self.quota.follow(configuration, self.used, nodes)
        if any(nodes):
            self.memory = self.memory.on_other_nodes(nodes)
        self.memory.forget(tree_changes)
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
