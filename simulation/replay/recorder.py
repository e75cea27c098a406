"""Moments of a replay as the columns of an outcome."""

from __future__ import annotations

from array import array
from datetime import datetime

from service.domain.status import Cause, Status
from service.domain.unit import group_of
from simulation.outcome.columns import Attempts, Evictions, Samples
from simulation.outcome.group import Fate
from simulation.outcome.outcome import Outcome
from simulation.replay.agenda import Submit
from simulation.replay.bounds import Bounds
from simulation.replay.loop import Moment, Simulation
from simulation.replay.news import Closed
from simulation.replay.reasons import Reasons
from simulation.replay.rows import Rows


class Recorder:
    """`kept`: of so many of the groups that wait longest the reasons are kept."""

    def __init__(
        self,
        simulation: Simulation,
        *,
        start_at: datetime,
        guard_seconds: float,
        restart_cost_seconds: float,
        kept: int,
    ) -> None:
        self._simulation = simulation
        self._start_at = start_at
        self._restart_cost_seconds = restart_cost_seconds
        self._rows = Rows()
        self._attempts = Attempts(
            group=array("i"), gpus=array("i"), started_at=array("d"), ended_at=array("d")
        )
        self._evictions = Evictions(
            at=array("d"), group=array("i"), claimant=array("i"), lost_gpu_seconds=array("d")
        )
        self._samples = _no_samples()
        self._last: tuple[int, ...] = ()
        #: By unit that gives way, since when, and to whom.
        self._giving_way: dict[int, tuple[float, int]] = {}
        self._bounds = Bounds(simulation.world, guard_seconds=guard_seconds)
        self._reasons = Reasons(kept)
        self.cycles = 0
        self.end_at = 0.0

    @property
    def submitted(self) -> int:
        return len(self._rows.group_ids)

    @property
    def ended(self) -> int:
        return self.submitted - len(self._rows.live)

    def note(self, moment: Moment) -> None:
        """One cycle."""
        self.cycles += 1
        at, news, rows = self._seconds(moment.now), moment.news, self._rows
        # 1. What had happened before.
        for happening in moment.happenings:
            if isinstance(happening, Submit):
                rows.submit(happening.job, self._seconds(happening.job.row.submitted_at))
        for closed in news.closed:
            self._close(closed, at)
        for row in news.withdrawn:
            rows.wait(rows.live[row.group_id], row.first_index - row.last_index - 1)
            self._reasons.forget(row.group_id)
        for group_id, status in news.ended:
            rows.end(group_id, status, at)
        # 2. What was decided.
        for eviction in moment.plan.evictions:
            claimant = rows.live[group_of(eviction.receipt.claimant_id)].number
            self._giving_way[eviction.unit_id] = at, claimant
        bounds = self._bounds.note(moment)
        for admission in moment.plan.admissions:
            live = rows.live[admission.group_id]
            rows.start(live, at)
            self._reasons.start(
                admission.group_id, live.number, at=at, since=rows.groups.submitted_at[live.number]
            )
        for group_id, seconds in bounds:
            rows.groups.bound_seconds[rows.live[group_id].number] = seconds
        # 3. How things stand now.
        self._reasons.note(moment.plan, at, waiting=rows.waiting)
        self._sample(at)
        self.end_at = at

    def _close(self, closed: Closed, at: float) -> None:
        unit, live = closed.unit, self._rows.live[closed.unit.group_id]
        gpus, started_at = closed.gpus, self._seconds(unit.admitted_at)
        self._note_attempt(live.number, gpus, started_at, at)
        ran = at - started_at - closed.lost_seconds
        self._rows.close(live, gpus=gpus, ran=ran, lost=closed.lost_seconds, to=closed.to, cause=closed.cause)
        if closed.cause is Cause.PREEMPTED and closed.to is Status.PENDING:
            evicted_at, claimant = self._giving_way.pop(unit.id)
            self._evictions.at.append(evicted_at)
            self._evictions.group.append(live.number)
            self._evictions.claimant.append(claimant)
            self._evictions.lost_gpu_seconds.append(gpus * (at - started_at + self._restart_cost_seconds))

    def _note_attempt(self, number: int, gpus: int, started_at: float, ended_at: float) -> None:
        self._attempts.group.append(number)
        self._attempts.gpus.append(gpus)
        self._attempts.started_at.append(started_at)
        self._attempts.ended_at.append(ended_at)

    def _sample(self, at: float) -> None:
        rows, occupancy, samples = self._rows, self._simulation.books.occupancy, self._samples
        sample = (
            occupancy.up_gpus,
            occupancy.held_gpus,
            occupancy.torn_gpus,
            rows.waiting,
            rows.waiting_gpus,
        )
        if sample == self._last:
            return
        self._last = sample
        samples.at.append(at)
        columns = (
            samples.up_gpus,
            samples.held_gpus,
            samples.torn_gpus,
            samples.waiting,
            samples.waiting_gpus,
        )
        for column, value in zip(columns, sample, strict=True):
            column.append(value)

    # ------------------------------------------------------------------ the end
    def outcome(self, *, site: str, policy: str, cpu_seconds: float) -> Outcome:
        """Whoever runs yet does so until the last thing that happened."""
        self._settle_running()
        self._settle_waiting()
        return Outcome(
            site=site,
            policy=policy,
            start_at=self._start_at,
            end_at=self.end_at,
            tenants=self._rows.tenants,
            groups=self._rows.groups,
            attempts=self._attempts,
            samples=self._samples,
            evictions=self._evictions,
            histories=self._reasons.histories(self._rows.live, end_at=self.end_at),
            cycles=self.cycles,
            cpu_seconds=cpu_seconds,
            group_ids=self._rows.group_ids,
        )

    def _settle_running(self) -> None:
        rows = self._rows
        for unit in self._simulation.world.running.values():
            live = rows.live[unit.group_id]
            started_at, gpus = (
                self._seconds(unit.admitted_at),
                sum(len(place.devices) for place in unit.places),
            )
            self._note_attempt(live.number, gpus, started_at, self.end_at)
            rows.groups.fate[live.number] = Fate.RUNNING
            rows.groups.ran_seconds[live.number] = self.end_at - started_at

    def _settle_waiting(self) -> None:
        """That some unit of it waits goes before that others run."""
        world = self._simulation.world
        for row in world.pending.values():
            fate = Fate.WAITING if world.could_fit(row) else Fate.NEVER_FITS
            self._rows.groups.fate[self._rows.live[row.group_id].number] = fate

    def _seconds(self, at: datetime) -> float:
        return (at - self._start_at).total_seconds()


def _no_samples() -> Samples:
    return Samples(
        at=array("d"),
        up_gpus=array("i"),
        held_gpus=array("i"),
        torn_gpus=array("i"),
        waiting=array("i"),
        waiting_gpus=array("q"),
    )
