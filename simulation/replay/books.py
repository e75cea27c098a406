"""Books in memory: what PostgreSQL would say about units, and what becomes of those that run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from service.admission.elastic.surplus import freed_by
from service.admission.plan import Eviction, Plan, Resize
from service.admission.resident import World
from service.admission.world import Changes, Configuration, PendingUnit, RunningUnit
from service.domain.queue import Stop
from service.domain.shape import Shape
from service.domain.status import Status
from service.domain.unit import group_of, index_of
from simulation.job import Job
from simulation.replay.agenda import (
    Agenda,
    Cancel,
    Configure,
    Dropped,
    End,
    Failed,
    Gone,
    Happening,
    Hold,
    Submit,
    Wake,
)
from simulation.replay.dependents import Dependents

_DAY = timedelta(days=1)
#: How long a start takes that fails, how long a unit keeps its places whose node is down, and how long it
#: waits in vain after either.
_START, _SEAT, _BACKOFF = timedelta(seconds=30), timedelta(seconds=600), timedelta(seconds=120)


@dataclass(slots=True)
class _News:
    """What has come of all happenings so far."""

    shapes: dict[int, Shape] = field(default_factory=dict)
    pending: dict[int, PendingUnit] = field(default_factory=dict)
    running: dict[int, RunningUnit] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    configuration: Configuration | None = None

    def changes(self) -> Changes:
        """An attempt that ended gives up nothing any more."""
        over = self.gone | self.pending.keys()
        return Changes(
            configuration=self.configuration,
            shapes=self.shapes,
            pending={unit_id: row for unit_id, row in self.pending.items() if unit_id not in self.gone},
            running={unit_id: unit for unit_id, unit in self.running.items() if unit_id not in over},
            gone=frozenset(self.gone),
        )


class Books:
    """States of every unit that has not ended. Everything that happens becomes the `Changes` that a feed
    would bring, and a plan that was committed becomes ends to come."""

    def __init__(self, world: World, agenda: Agenda) -> None:
        self._world = world
        self._agenda = agenda
        self._jobs: dict[int, Job] = {}
        self._preempted: dict[int, tuple[datetime, ...]] = {}
        self._held: set[int] = set()
        self._dependents = Dependents()
        #: Groups of which something was withdrawn, or ended otherwise than well.
        self._cancelled: set[int] = set()
        self._failed: set[int] = set()

    def job(self, group_id: int) -> Job:
        return self._jobs[group_id]

    def changes_of(self, happenings: Iterable[Happening], now: datetime) -> Changes:
        """What all of them together come to; those about attempts that are over come to nothing."""
        news = _News()
        for happening in happenings:
            match happening:
                case Submit(job):
                    self._submit(job, news)
                case Hold(group_id, is_held):
                    waiting = self._waiting_of(group_id, news.pending)
                    news.pending |= self._hold(waiting, group_id, is_held=is_held)
                case Cancel(group_id):
                    self._cancelled.add(group_id)
                    news.gone.update(self._waiting_of(group_id, news.pending))
                case Configure(configuration):
                    news.configuration = configuration
                    self._note_losses(configuration, now)
                    news.running |= self._drain(configuration, now)
                case Wake():
                    pass
                case _:
                    self._go_on(happening, news, now)
        self._tell_dependents(news.pending, news.gone)
        return news.changes()

    def _submit(self, job: Job, news: _News) -> None:
        self._jobs[job.group_id] = job
        waits_for = self._dependents.submit(job)
        news.shapes[job.row.shape_id] = job.shape
        news.pending[job.row.id] = replace(job.row, open_dependencies=waits_for or 0)
        if waits_for is None:
            self._cancelled.add(job.group_id)
            news.gone.add(job.row.id)

    def _go_on(self, happening: End | Failed | Gone | Dropped, news: _News, now: datetime) -> None:
        """What becomes of an attempt, if it has not come to its end."""
        unit = self._world.running.get(happening.unit_id)
        is_evicting = isinstance(happening, Gone)
        if unit is None or not self._lives(unit.id, happening.attempt, is_evicting=is_evicting):
            return
        match happening:
            case End():
                news.gone.add(unit.id)
                self._note_failure(unit, now)
            case Failed(is_lost=is_lost):
                if not is_lost or self._is_down(unit.id):
                    news.pending[unit.id] = self._in_vain(unit, now, is_lost=is_lost)
            case Gone():
                news.pending[unit.id] = self._again(unit, now)
            case Dropped():
                news.running[unit.id] = self._without_dropped(unit)

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
        if unit.attempt <= job.failed_starts:
            self._agenda.note(now + _START, Failed(unit.id, unit.attempt, is_lost=False))
            return
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

    def _note_failure(self, unit: RunningUnit, now: datetime) -> None:
        is_over = unit.time_limit_at is not None and unit.time_limit_at <= now
        ends_as = self._jobs[unit.group_id].ends_as
        if is_over or ends_as is Status.FAILED:
            self._failed.add(unit.group_id)
        elif ends_as is Status.CANCELLED:
            self._cancelled.add(unit.group_id)

    def _note_losses(self, configuration: Configuration, now: datetime) -> None:
        """Whoever sits on a node that is down waits again, unless it is up by then."""
        for unit in self._world.running.values():
            if _is_on_a_lost_node(unit, configuration):
                self._agenda.note(now + _SEAT, Failed(unit.id, unit.attempt, is_lost=True))

    def _is_down(self, unit_id: int) -> bool:
        return _is_on_a_lost_node(self._world.running[unit_id], self._world.configuration)

    def _in_vain(self, unit: RunningUnit, now: datetime, *, is_lost: bool) -> PendingUnit:
        return replace(
            self._again(unit, now),
            backoff_until=now + _BACKOFF,
            has_never_run=not is_lost,
            avoided_nodes=frozenset(place.node_id for place in unit.places),
        )

    def _drain(self, configuration: Configuration, now: datetime) -> dict[int, RunningUnit]:
        """Whoever runs in a queue that is stopped so is evicted, with its grace."""
        drained: dict[int, RunningUnit] = {}
        for unit in self._world.running.values():
            stop = configuration.queues[unit.queue_id].stop
            if stop is Stop.HOLD_AND_DRAIN and unit.evicting_until is None:
                until = now + timedelta(seconds=unit.grace_seconds)
                drained[unit.id] = replace(unit, evicting_until=until, is_resizable=False)
                self._agenda.note(
                    now + self._stop_time(self._jobs[unit.group_id]), Gone(unit.id, unit.attempt)
                )
        return drained

    def _tell_dependents(self, pending: dict[int, PendingUnit], gone: set[int]) -> None:
        """Of groups of which nothing waits or runs any more; who can never start ends with them."""
        ended = sorted({group_of(unit_id) for unit_id in gone})
        while ended:
            group_id = ended.pop()
            units = {*self._waiting_of(group_id, pending)}
            units |= {unit.id for unit in self._world.running.values() if unit.group_id == group_id}
            if units <= gone:
                met, never = self._dependents.end(group_id, self._status_of(group_id))
                for each in met:
                    waits_for = self._dependents.open_of(each)
                    for row in self._waiting_of(each, pending).values():
                        pending[row.id] = replace(row, open_dependencies=waits_for, version=row.version + 1)
                for each in sorted(never):
                    self._cancelled.add(each)
                    gone.update(self._waiting_of(each, pending))
                ended.extend(sorted(never))

    def _status_of(self, group_id: int) -> Status:
        if group_id in self._cancelled:
            return Status.CANCELLED
        return Status.FAILED if group_id in self._failed else Status.SUCCEEDED

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


def _is_on_a_lost_node(unit: RunningUnit, configuration: Configuration) -> bool:
    """A node that is not configured any more is not lost."""
    nodes = (configuration.nodes.get(place.node_id) for place in unit.places)
    return any(node is not None and not node.is_ready for node in nodes)
