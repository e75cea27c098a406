"""Books in memory: what PostgreSQL would say about units, and what becomes of those that run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from service.admission.elastic.surplus import freed_by
from service.admission.past_use import Held, charges_of
from service.admission.plan import Eviction, Plan, Resize
from service.admission.policy import DEFAULT, Policy
from service.admission.resident import World
from service.admission.world import Changes, Configuration, PendingUnit, RunningUnit
from service.domain.lifecycle.decisions import Decision, Evict, Recover, Succeed
from service.domain.queue import Stop
from service.domain.status import Cause, Status
from service.domain.unit import group_of, index_of
from simulation.job import Job
from simulation.replay.agenda import (
    Agenda,
    Cancel,
    Configure,
    Deadline,
    Dropped,
    End,
    Gone,
    Happening,
    Hold,
    OfAttempt,
    Refused,
    Submit,
    Turn,
    Wake,
)
from simulation.replay.dependents import Dependents
from simulation.replay.lives import Life, judge_end, judge_loss, judge_refusal, judge_time
from simulation.replay.news import Closed, News
from simulation.replay.occupancy import Occupancy

#: How long a launcher takes to refuse a start.
_START = timedelta(seconds=30)
_PREEMPTED = Evict(target=Status.PENDING, cause=Cause.PREEMPTED, message="")
_DRAINED = Evict(target=Status.PENDING, cause=Cause.UNKNOWN, message="")


class Books:
    """States of every unit that has not ended. Everything that happens becomes the `Changes` that a feed
    would bring, and a plan that was committed becomes ends to come."""

    def __init__(self, world: World, agenda: Agenda, *, policy: Policy = DEFAULT) -> None:
        self._world = world
        self._agenda = agenda
        self._policy = policy
        self._jobs: dict[int, Job] = {}
        #: By group its units that have not ended.
        self._units: dict[int, set[int]] = {}
        self._lives: dict[int, Life] = {}
        self._held: set[int] = set()
        self._resized: dict[int, list[Held]] = {}
        self._dependents = Dependents()
        #: Groups of which something was withdrawn, or ended otherwise than well.
        self._endings: dict[int, Status] = {}
        self.occupancy = Occupancy()

    def job(self, group_id: int) -> Job:
        """Of a group that has not ended."""
        return self._jobs[group_id]

    def life(self, unit_id: int) -> Life | None:
        """Of a unit that has not ended; None before its first start."""
        return self._lives.get(unit_id)

    # ------------------------------------------------------------------ what happens
    def news_of(self, happenings: Iterable[Happening], now: datetime) -> News:
        """What all of them together come to; those about attempts that are over come to nothing."""
        news = News()
        for happening in happenings:
            match happening:
                case Submit(job):
                    self._submit(job, news)
                case Hold(group_id, is_held):
                    self._hold(group_id, news, is_held=is_held)
                case Cancel(group_id):
                    self._withdraw(group_id, news)
                case Configure(configuration):
                    self._configure(configuration, news, now)
                    self._drain(configuration, news, now)
                case Turn(node_ids, is_up):
                    self._turn(node_ids, news, now, is_up=is_up)
                case Wake():
                    pass
                case _:
                    self._go_on(happening, news, now)
        self._end_groups(news)
        return news

    def _submit(self, job: Job, news: News) -> None:
        row = job.row
        self._jobs[job.group_id] = job
        self._units[job.group_id] = {row.id}
        if job.shape is not self._world.shapes.get(row.shape_id):
            news.shapes[row.shape_id] = job.shape
        waits_for = self._dependents.submit(job)
        news.pending[row.id] = replace(row, open_dependencies=waits_for) if waits_for else row
        news.submitted.append(row)
        if waits_for is None:
            self._withdraw(job.group_id, news)
        elif job.withdrawn_at is not None:
            self._agenda.note(max(job.withdrawn_at, row.submitted_at), Cancel(job.group_id))

    def _hold(self, group_id: int, news: News, *, is_held: bool) -> None:
        (self._held.add if is_held else self._held.discard)(group_id)
        for row in self._waiting_of(group_id, news):
            news.pending[row.id] = replace(row, is_held=is_held, version=row.version + 1)

    def _withdraw(self, group_id: int, news: News) -> None:
        """What waits of it."""
        for row in self._waiting_of(group_id, news):
            self._endings[group_id] = Status.CANCELLED
            news.gone.add(row.id)
            news.withdrawn.append(row)
            self._forget(row.id)

    def _go_on(self, happening: OfAttempt, news: News, now: datetime) -> None:
        """What becomes of an attempt, if it has not come to its end."""
        unit = self._find_running(happening.unit_id, news)
        if unit is None or unit.attempt != happening.attempt:
            return
        is_stopping, life = unit.evicting_until is not None, self._lives[unit.id]
        job = self._jobs[unit.group_id]
        match happening:
            case Gone():
                if is_stopping and life.evict is not None:
                    self._release(unit, life.evict, news, now)
            case Dropped():
                if not is_stopping:
                    self._drop(unit, news)
            case _ if is_stopping:
                pass
            case End(generation=generation):
                if generation == life.generation and not life.is_recovering:
                    self._end(unit, life, job, news, now)
            case Deadline():
                self._follow(unit, judge_time(unit, life, job, now=now), news, now)
            case Refused():
                self._follow(unit, judge_refusal(unit, life, job), news, now)

    def _end(self, unit: RunningUnit, life: Life, job: Job, news: News, now: datetime) -> None:
        if job.ends_as is Status.CANCELLED:
            self._close(unit, Status.CANCELLED, Cause.CANCELLED, news, now)
        else:
            self._follow(unit, judge_end(unit, life, job, now=now), news, now)

    def _follow(self, unit: RunningUnit, decision: Decision | None, news: News, now: datetime) -> None:
        life = self._lives[unit.id]
        match decision:
            case Succeed():
                self._close(unit, Status.SUCCEEDED, None, news, now)
            case Recover():
                life.recover(decision, now)
                self._agenda.note(decision.seat_deadline_at, Deadline(unit.id, unit.attempt))
                if not _is_on_a_lost_node(unit, news.configuration or self._world.configuration):
                    self._run_again(unit, life, now)
            case Evict():
                self._stop(unit, decision, news, now, gone_at=self._gone_at(unit, life, decision, now))

    def _gone_at(self, unit: RunningUnit, life: Life, evict: Evict, now: datetime) -> datetime:
        """Nothing is left to stop of who has not started, has ended by itself, or was lost with its node."""
        job = self._jobs[unit.group_id]
        if life.started_at is None or evict.cause is not Cause.TIME_LIMIT:
            return now
        gone_at = now + self._stop_time(job)
        if job.runtime_seconds is not None:
            gone_at = min(gone_at, life.started_at + self._runtime(job, life))
        return max(now, gone_at)

    def _stop(self, unit: RunningUnit, evict: Evict, news: News, now: datetime, *, gone_at: datetime) -> None:
        life = self._lives[unit.id]
        life.stop(evict)
        if gone_at <= now:
            self._release(unit, evict, news, now)
            return
        until = now + timedelta(seconds=unit.grace_seconds)
        news.running[unit.id] = replace(unit, evicting_until=until, is_resizable=False)
        self._agenda.note(gone_at, Gone(unit.id, unit.attempt))

    def _release(self, unit: RunningUnit, evict: Evict, news: News, now: datetime) -> None:
        """Its attempt is closed: it waits again, or has ended."""
        if evict.target is Status.PENDING:
            news.pending[unit.id] = self._again(unit, evict, now)
        self._close(unit, evict.target, evict.cause, news, now)

    def _close(self, unit: RunningUnit, to: Status, cause: Cause | None, news: News, now: datetime) -> None:
        held = self._resized.pop(unit.id, [])
        began_at = held[-1].ended_at if held else unit.admitted_at
        charges = charges_of(
            unit.queue_id,
            [*held, Held(usage=unit.usage, began_at=began_at, ended_at=now)],
            ended_at=now,
            cause=cause,
            half_life_seconds=self._policy.half_life_seconds,
        )
        life = self._lives[unit.id]
        closed = Closed(unit=unit, to=to, cause=cause, lost_seconds=life.lost_seconds)
        news.charge(closed, charges)
        self.occupancy.leave(unit.id)
        if to is Status.PENDING:
            return
        news.gone.add(unit.id)
        news.running.pop(unit.id, None)
        if to is not Status.SUCCEEDED and self._endings.get(unit.group_id) is not Status.CANCELLED:
            self._endings[unit.group_id] = to
        self._forget(unit.id)

    def _again(self, unit: RunningUnit, evict: Evict, now: datetime) -> PendingUnit:
        """The unit at its old place in the order, as its next attempt."""
        row, life, index = self._jobs[unit.group_id].row, self._lives[unit.id], index_of(unit.id)
        backoff = evict.backoff_seconds
        backoff_until = None if backoff is None else now + timedelta(seconds=backoff)
        return replace(
            row,
            id=unit.id,
            first_index=index,
            last_index=index,
            attempt=unit.attempt + 1,
            version=unit.attempt + 1,
            waiting_since=now if backoff_until is None else max(now, backoff_until),
            backoff_until=backoff_until,
            is_held=unit.group_id in self._held or life.is_held,
            has_never_run=life.started_at is None and life.lost_seconds == 0.0,
            avoided_nodes=frozenset(life.failed_nodes),
            preempted_at=life.preempted_at,
        )

    def _drop(self, unit: RunningUnit, news: News) -> None:
        """An elastic unit goes on without the members that it gave up."""
        dropped = [place for place in unit.places if place.member in unit.dropping]
        nodes = self._world.configuration.nodes
        freed = freed_by(dropped, self._world.shapes[unit.shape_id], nodes=nodes)
        news.running[unit.id] = after = replace(
            unit,
            places=tuple(place for place in unit.places if place not in dropped),
            usage={name: amount - freed.get(name, 0) for name, amount in unit.usage.items()},
            is_resizable=True,
            dropping=(),
            dropping_until=None,
        )
        self.occupancy.seat(after)

    # ------------------------------------------------------------------ nodes
    def _configure(self, configuration: Configuration, news: News, now: datetime) -> None:
        before = (news.configuration or self._world.configuration).nodes
        news.configuration = configuration
        self.occupancy.configure(configuration)
        turned = [
            node_id
            for node_id, node in configuration.nodes.items()
            if node_id not in before or before[node_id].is_ready is not node.is_ready
        ]
        self._note_turned(turned, configuration, news, now)

    def _turn(self, node_ids: Collection[int], news: News, now: datetime, *, is_up: bool) -> None:
        before = news.configuration or self._world.configuration
        known = [node_id for node_id in node_ids if node_id in before.nodes]
        turned = {node_id: replace(before.nodes[node_id], is_ready=is_up) for node_id in known}
        news.configuration = replace(
            before,
            version=before.version + 1,
            nodes_version=before.nodes_version + 1,
            nodes={**before.nodes, **turned},
        )
        self.occupancy.turn(news.configuration.nodes, turned)
        self._note_turned(known, news.configuration, news, now)

    def _note_turned(
        self, node_ids: Collection[int], configuration: Configuration, news: News, now: datetime
    ) -> None:
        """Who sits on a node that went down has lost members; who waits for one starts again in place."""
        for unit_id in self.occupancy.units_on(node_ids):
            unit = self._find_running(unit_id, news)
            if unit is None or unit.evicting_until is not None:
                continue
            life, job = self._lives[unit_id], self._jobs[unit.group_id]
            decision = judge_loss(unit, life, job, nodes=configuration.nodes, now=now)
            if decision is not None:
                self._follow(unit, decision, news, now)
            elif life.is_recovering and not _is_on_a_lost_node(unit, configuration):
                self._run_again(unit, life, now)

    def _run_again(self, unit: RunningUnit, life: Life, now: datetime) -> None:
        life.run_again(now)
        self._note_end(unit, life, now)

    def _drain(self, configuration: Configuration, news: News, now: datetime) -> None:
        """Whoever runs in a queue that is stopped so is evicted, with its grace."""
        for queue_id, queue in configuration.queues.items():
            if queue.stop is not Stop.HOLD_AND_DRAIN:
                continue
            for unit_id in tuple(self._world.running_in.get(queue_id, ())):
                unit = self._find_running(unit_id, news)
                if unit is not None and unit.evicting_until is None:
                    gone_at = now + self._stop_time(self._jobs[unit.group_id])
                    self._stop(unit, _DRAINED, news, now, gone_at=gone_at)

    # ------------------------------------------------------------------ what is decided
    def commit(self, plan: Plan, now: datetime) -> None:
        """All of the plan comes to be, as the leader applies it."""
        world = self._world
        world.admit(plan.admissions, now)
        for admission in plan.admissions:
            self._start(world.running[admission.unit_id], now)
        for eviction in plan.evictions:
            self._evict(eviction, now)
        for resize in plan.resizes:
            self._note_held(world.running[resize.unit_id], now)
        world.resize(plan.resizes, now)
        world.keep_claims(plan.claims_made, ended=plan.claims_ended)
        world.keep_pauses(plan.pauses_made, dropped=plan.pauses_dropped)
        self._settle(plan, now)

    def _start(self, unit: RunningUnit, now: datetime) -> None:
        self._units[unit.group_id].add(unit.id)
        self.occupancy.seat(unit)
        life = self._lives.setdefault(unit.id, Life())
        life.begin_attempt(now)
        if unit.attempt <= self._jobs[unit.group_id].failed_starts:
            life.started_at = None
            self._agenda.note(now + _START, Refused(unit.id, unit.attempt))
            return
        self._note_end(unit, life, now)

    def _note_end(self, unit: RunningUnit, life: Life, now: datetime) -> None:
        """By itself, or at its limit, whichever comes first."""
        job = self._jobs[unit.group_id]
        limit_at = unit.time_limit_at
        ends_at = None if job.runtime_seconds is None else now + self._runtime(job, life)
        life.has_run = True
        if ends_at is not None:
            self._agenda.note(ends_at, End(unit.id, unit.attempt, life.generation))
        if limit_at is not None and (ends_at is None or limit_at < ends_at):
            self._agenda.note(max(now, limit_at), Deadline(unit.id, unit.attempt))

    def _runtime(self, job: Job, life: Life) -> timedelta:
        """All of its work, for nobody in a log keeps checkpoints; once it has run, with the cost of a
        restart, which alone lets nobody run into a limit."""
        assert job.runtime_seconds is not None
        if not life.has_run:
            return timedelta(seconds=job.runtime_seconds)
        seconds, limit = job.runtime_seconds + self._policy.restart_cost_seconds, job.row.time_limit_seconds
        if limit is not None:
            seconds = min(seconds, max(job.runtime_seconds, limit))
        return timedelta(seconds=seconds)

    def _evict(self, eviction: Eviction, now: datetime) -> None:
        unit, life = self._world.running[eviction.unit_id], self._lives[eviction.unit_id]
        life.note_preemption(now)
        life.stop(_PREEMPTED)
        self._agenda.note(now + self._stop_time(self._jobs[unit.group_id]), Gone(unit.id, unit.attempt))
        until = now + timedelta(seconds=unit.grace_seconds)
        self._world.give_way(unit.id, until, preempted_at=life.preempted_at)

    def _settle(self, plan: Plan, now: datetime) -> None:
        """What was launched is Running at once; what gives up members does so when they have stopped."""
        resizable = [resize.unit_id for resize in plan.resizes if resize.added]
        resizable += [admission.unit_id for admission in plan.admissions if admission.is_resizable]
        if resizable:
            units = (self._world.running[unit_id] for unit_id in resizable)
            self._world.apply(Changes(running={unit.id: replace(unit, is_resizable=True) for unit in units}))
        for resize in plan.resizes:
            self.occupancy.seat(self._world.running[resize.unit_id])
            if resize.dropped:
                self._note_dropped(resize, now)

    def _note_held(self, unit: RunningUnit, now: datetime) -> None:
        held = self._resized.setdefault(unit.id, [])
        began_at = held[-1].ended_at if held else unit.admitted_at
        held.append(Held(usage=unit.usage, began_at=began_at, ended_at=now))

    def _note_dropped(self, resize: Resize, now: datetime) -> None:
        job = self._jobs[self._world.running[resize.unit_id].group_id]
        self._agenda.note(now + self._stop_time(job), Dropped(resize.unit_id, resize.attempt))

    def _stop_time(self, job: Job) -> timedelta:
        return timedelta(seconds=min(job.stop_seconds, job.row.grace_seconds))

    # ------------------------------------------------------------------ groups
    def _end_groups(self, news: News) -> None:
        """Groups of which nothing waits or runs any more; who can never start ends with them."""
        ended = sorted({group_of(unit_id) for unit_id in news.gone})
        while ended:
            group_id = ended.pop()
            if self._units[group_id]:
                continue
            status = self._endings.pop(group_id, Status.SUCCEEDED)
            news.ended.append((group_id, status))
            del self._units[group_id], self._jobs[group_id]
            self._held.discard(group_id)
            met, never = self._dependents.end(group_id, status)
            for each in met:
                waits_for = self._dependents.open_of(each)
                for row in self._waiting_of(each, news):
                    news.pending[row.id] = replace(row, open_dependencies=waits_for, version=row.version + 1)
            for each in sorted(never):
                self._withdraw(each, news)
            ended.extend(sorted(never))

    def _forget(self, unit_id: int) -> None:
        self._units[group_of(unit_id)].discard(unit_id)
        self._lives.pop(unit_id, None)

    def _find_running(self, unit_id: int, news: News) -> RunningUnit | None:
        if unit_id in news.gone or unit_id in news.pending:
            return None
        return news.running.get(unit_id) or self._world.running.get(unit_id)

    def _waiting_of(self, group_id: int, news: News) -> list[PendingUnit]:
        """What waits of the group, with what comes to wait now."""
        rows: Mapping[int, PendingUnit] = self._world.pending
        found = (news.pending.get(each) or rows.get(each) for each in sorted(self._units.get(group_id, ())))
        return [row for row in found if row is not None]


def _is_on_a_lost_node(unit: RunningUnit, configuration: Configuration) -> bool:
    """A node that is not configured any more is not lost."""
    nodes = (configuration.nodes.get(place.node_id) for place in unit.places)
    return any(node is not None and not node.is_ready for node in nodes)
