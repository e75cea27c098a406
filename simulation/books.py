"""Books in memory: what PostgreSQL would say about units, and what becomes of those that run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from service.admission.plan import Eviction, Plan
from service.admission.resident import World
from service.admission.world import Changes, Configuration, PendingUnit, RunningUnit
from service.domain.shape import Shape
from service.domain.unit import index_of
from simulation.agenda import Agenda, Cancel, Configure, End, Gone, Happening, Submit
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

    def job(self, group_id: int) -> Job:
        return self._jobs[group_id]

    def changes_of(self, happenings: Iterable[Happening], now: datetime) -> Changes:
        """What all of them together come to; those about attempts that are over come to nothing."""
        shapes: dict[int, Shape] = {}
        pending: dict[int, PendingUnit] = {}
        gone: set[int] = set()
        configuration: Configuration | None = None
        for happening in happenings:
            match happening:
                case Submit(job):
                    self._jobs[job.group_id] = job
                    shapes[job.row.shape_id] = job.shape
                    pending[job.row.id] = job.row
                case End(unit_id, attempt):
                    if self._lives(unit_id, attempt):
                        gone.add(unit_id)
                case Gone(unit_id, attempt):
                    if self._lives(unit_id, attempt, is_evicting=True):
                        pending[unit_id] = self._again(self._world.running[unit_id], now)
                case Cancel(group_id):
                    gone.update(self._waiting_of(group_id))
                    for unit_id in [key for key, row in pending.items() if row.group_id == group_id]:
                        del pending[unit_id]
                case Configure(configuration):
                    pass
        return Changes(configuration=configuration, shapes=shapes, pending=pending, gone=frozenset(gone))

    def commit(self, plan: Plan, now: datetime) -> None:
        """All of the plan comes to be."""
        self._world.admit(plan.admissions, now)
        for admission in plan.admissions:
            self._note_end(self._world.running[admission.unit_id], now)
        evicted = dict(self._evict(plan.evictions, now))
        self._world.apply(Changes(running=evicted))

    def _note_end(self, unit: RunningUnit, now: datetime) -> None:
        """By itself, or at its limit, whichever comes first."""
        job = self._jobs[unit.group_id]
        ends = [] if job.runtime_seconds is None else [now + timedelta(seconds=job.runtime_seconds)]
        if unit.time_limit_at is not None:
            ends.append(unit.time_limit_at + self._stop_time(job))
        if ends:
            self._agenda.note(min(ends), End(unit.id, unit.attempt))

    def _evict(self, evictions: Iterable[Eviction], now: datetime) -> Iterator[tuple[int, RunningUnit]]:
        for eviction in evictions:
            unit = self._world.running[eviction.unit_id]
            recent = (at for at in self._preempted.get(unit.id, ()) if at > now - _DAY)
            self._preempted[unit.id] = (*recent, now)
            stop_time = self._stop_time(self._jobs[unit.group_id])
            self._agenda.note(now + stop_time, Gone(unit.id, unit.attempt))
            until = now + timedelta(seconds=unit.grace_seconds)
            yield unit.id, replace(unit, evicting_until=until)

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
        )

    def _waiting_of(self, group_id: int) -> list[int]:
        return [row.id for row in self._world.pending.values() if row.group_id == group_id]
