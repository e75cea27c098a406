"""Books in memory: what PostgreSQL would say about units, and what becomes of those that run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from service.admission.plan import Eviction, Plan, Resize
from service.admission.resident import World
from service.admission.surplus import freed_by
from service.admission.world import Changes, Configuration, PendingUnit, RunningUnit
from service.domain.shape import Shape
from service.domain.unit import index_of
from simulation.agenda import Agenda, Cancel, Configure, Dropped, End, Gone, Happening, Hold, Submit
from simulation.job import Job

_DAY = timedelta(days=1)


class Books:
    """States of every unit that has not ended. Everything that happens becomes the `Changes` that a feed
    would bring, and a plan that was committed becomes ends to come."""

    def __init__(self, world: World, agenda: Agenda) -> None:
        self._world = world
        self._agenda = agenda
        self._jobs: dict[int, Job] = {}
        self._preempted: dict[int, tuple[datetime, ...]] = {}
        self._held: set[int] = set()

    def job(self, group_id: int) -> Job:
        return self._jobs[group_id]

    def changes_of(self, happenings: Iterable[Happening], now: datetime) -> Changes:
        """What all of them together come to; those about attempts that are over come to nothing."""
        shapes: dict[int, Shape] = {}
        pending: dict[int, PendingUnit] = {}
        running: dict[int, RunningUnit] = {}
        gone: set[int] = set()
        configuration: Configuration | None = None
        for happening in happenings:
            match happening:
                case Submit(job):
                    self._jobs[job.group_id] = job
                    shapes[job.row.shape_id], pending[job.row.id] = job.shape, job.row
                case End(unit_id, attempt):
                    if self._lives(unit_id, attempt):
                        gone.add(unit_id)
                case Gone(unit_id, attempt):
                    if self._lives(unit_id, attempt, is_evicting=True):
                        pending[unit_id] = self._again(self._world.running[unit_id], now)
                case Dropped(unit_id, attempt):
                    if self._lives(unit_id, attempt):
                        running[unit_id] = self._without_dropped(self._world.running[unit_id])
                case Hold(group_id, is_held):
                    pending |= self._hold(self._waiting_of(group_id, pending), group_id, is_held=is_held)
                case Cancel(group_id):
                    waiting = self._waiting_of(group_id, pending)
                    gone.update(waiting)
                    pending = {key: row for key, row in pending.items() if key not in waiting}
                case Configure(configuration):
                    pass
        # An attempt that ended gives up nothing any more.
        running = {unit_id: unit for unit_id, unit in running.items() if unit_id not in gone | pending.keys()}
        return Changes(
            configuration=configuration, shapes=shapes, pending=pending, running=running, gone=frozenset(gone)
        )

    def commit(self, plan: Plan, now: datetime) -> None:
        """All of the plan comes to be, as the leader applies it."""
        world = self._world
        world.admit(plan.admissions, now)
        for admission in plan.admissions:
            self._note_end(world.running[admission.unit_id], now)
        for eviction in plan.evictions:
            self._evict(eviction, now)
        world.resize(plan.resizes, now)
        world.keep_claims(plan.claims_made, ended=plan.claims_ended)
        world.keep_pauses(plan.pauses_made, dropped=plan.pauses_dropped)
        self._settle(plan, now)

    def _settle(self, plan: Plan, now: datetime) -> None:
        """What was launched is Running at once; what gives up members does so when they have stopped."""
        grown = [resize.unit_id for resize in plan.resizes if resize.added]
        started = [admission.unit_id for admission in plan.admissions if admission.is_resizable]
        units = (self._world.running[unit_id] for unit_id in (*grown, *started))
        self._world.apply(Changes(running={unit.id: replace(unit, is_resizable=True) for unit in units}))
        for resize in plan.resizes:
            if resize.dropped:
                self._note_dropped(resize, now)

    def _note_dropped(self, resize: Resize, now: datetime) -> None:
        job = self._jobs[self._world.running[resize.unit_id].group_id]
        at = now + self._stop_time(job)
        self._agenda.note(at, Dropped(resize.unit_id, resize.attempt))

    def _without_dropped(self, unit: RunningUnit) -> RunningUnit:
        dropped = [place for place in unit.places if place.member in unit.dropping]
        nodes = self._world.configuration.nodes
        freed = freed_by(dropped, self._world.shapes[unit.shape_id], nodes=nodes)
        return replace(
            unit,
            places=tuple(place for place in unit.places if place not in dropped),
            usage={name: amount - freed.get(name, 0) for name, amount in unit.usage.items()},
            is_resizable=True,
            dropping=(),
            dropping_until=None,
        )

    def _note_end(self, unit: RunningUnit, now: datetime) -> None:
        """By itself, or at its limit, whichever comes first."""
        job = self._jobs[unit.group_id]
        ends = [] if job.runtime_seconds is None else [now + timedelta(seconds=job.runtime_seconds)]
        if unit.time_limit_at is not None:
            ends.append(unit.time_limit_at + self._stop_time(job))
        if ends:
            self._agenda.note(min(ends), End(unit.id, unit.attempt))

    def _evict(self, eviction: Eviction, now: datetime) -> None:
        unit = self._world.running[eviction.unit_id]
        recent = [at for at in self._preempted.get(unit.id, ()) if at > now - _DAY]
        self._preempted[unit.id] = (*recent, now)
        self._agenda.note(now + self._stop_time(self._jobs[unit.group_id]), Gone(unit.id, unit.attempt))
        until = now + timedelta(seconds=unit.grace_seconds)
        self._world.give_way(unit.id, until, preempted_at=self._preempted[unit.id])

    def _stop_time(self, job: Job) -> timedelta:
        return timedelta(seconds=min(job.stop_seconds, job.row.grace_seconds))

    def _lives(self, unit_id: int, attempt: int, *, is_evicting: bool = False) -> bool:
        unit = self._world.running.get(unit_id)
        is_stopping = unit is not None and unit.evicting_until is not None
        return unit is not None and unit.attempt == attempt and is_stopping is is_evicting

    def _again(self, unit: RunningUnit, now: datetime) -> PendingUnit:
        """The unit at its old place in the order, as its next attempt."""
        row = self._jobs[unit.group_id].row
        index = index_of(unit.id)
        return replace(
            row,
            id=unit.id,
            first_index=index,
            last_index=index,
            attempt=unit.attempt + 1,
            version=unit.attempt + 1,
            waiting_since=now,
            is_held=unit.group_id in self._held,
            preempted_at=self._preempted.get(unit.id, ()),
        )

    def _hold(
        self, rows: Mapping[int, PendingUnit], group_id: int, *, is_held: bool
    ) -> dict[int, PendingUnit]:
        (self._held.add if is_held else self._held.discard)(group_id)
        return {
            unit_id: replace(row, is_held=is_held, version=row.version + 1) for unit_id, row in rows.items()
        }

    def _waiting_of(self, group_id: int, pending: Mapping[int, PendingUnit]) -> dict[int, PendingUnit]:
        """What waits of the group, with what comes to wait now."""
        rows = {**self._world.pending, **pending}
        return {unit_id: row for unit_id, row in rows.items() if row.group_id == group_id}
