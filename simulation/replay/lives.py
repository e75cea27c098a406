"""What units that hold places have gone through, and what the service's own rules make of what happens to
them (`service.domain.lifecycle`). Nothing is decided here: it is only seen, and noted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from service.admission.world import Node, RunningUnit
from service.domain.lifecycle.decisions import Decision, Evict, Recover
from service.domain.lifecycle.facts import MemberView, Phase, UnitView
from service.domain.lifecycle.launches import judge_launch_refusal
from service.domain.lifecycle.rules import decide
from service.domain.status import Cause, Status
from simulation.job import Job

_KEPT_PREEMPTIONS = timedelta(days=1)


@dataclass(slots=True)
class Life:
    """Of one unit, over all of its attempts. `started_at`: when its members last started, None before and
    while it is Recovering. `lost_seconds`: what earlier generations of this attempt ran in vain.
    `evict`: why it is Evicting, or waits again."""

    started_at: datetime | None = None
    generation: int = 1
    lost_seconds: float = 0.0
    has_run: bool = False
    restarts_used: int = 0
    refused_dispatches: int = 0
    failed_nodes: tuple[int, ...] = ()
    infrastructure_losses: int = 0
    seat_deadline_at: datetime | None = None
    loss: Recover | None = None
    evict: Evict | None = None
    preempted_at: tuple[datetime, ...] = ()
    is_held: bool = False

    @property
    def is_recovering(self) -> bool:
        return self.loss is not None

    def begin_attempt(self, now: datetime) -> None:
        self.generation, self.lost_seconds, self.infrastructure_losses = 1, 0.0, 0
        self.seat_deadline_at = self.loss = self.evict = None
        self.is_held = False
        self.started_at = now

    def recover(self, recover: Recover, now: datetime) -> None:
        """Its members are stopped; they start again in place as the next generation."""
        if self.started_at is not None:
            self.lost_seconds += (now - self.started_at).total_seconds()
        self.started_at, self.loss = None, recover
        self.generation += 1
        self.seat_deadline_at = recover.seat_deadline_at
        self.restarts_used += recover.counts_restart
        self.infrastructure_losses += recover.cause is Cause.INFRASTRUCTURE
        self._fail_on(recover.failed_nodes)

    def run_again(self, now: datetime) -> None:
        self.started_at, self.loss, self.seat_deadline_at = now, None, None

    def stop(self, evict: Evict) -> None:
        self.evict = evict
        self.restarts_used += evict.counts_restart
        self.refused_dispatches += evict.counts_refusal
        self.is_held |= evict.is_held
        self._fail_on(evict.failed_nodes)

    def note_preemption(self, now: datetime) -> None:
        recent = (at for at in self.preempted_at if at > now - _KEPT_PREEMPTIONS)
        self.preempted_at = (*recent, now)

    def _fail_on(self, nodes: Collection[int]) -> None:
        self.failed_nodes = tuple(sorted({*self.failed_nodes, *nodes}))


def judge_end(unit: RunningUnit, life: Life, job: Job, *, now: datetime) -> Decision | None:
    """What it runs has ended, well or not: the same of all of its members."""
    member = MemberView(
        member=0,
        node_id=unit.places[0].node_id,
        node="",
        phase=Phase.ENDED,
        exit_code=0 if job.ends_as is Status.SUCCEEDED else 1,
        ended_at=now,
    )
    return decide(_view(unit, life), job.recovery, members=[member], now=now)


def judge_time(unit: RunningUnit, life: Life, job: Job, *, now: datetime) -> Decision | None:
    """Nothing has happened to its members, but a deadline may be over."""
    member = MemberView(member=0, node_id=unit.places[0].node_id, node="", phase=Phase.READY)
    return decide(_view(unit, life), job.recovery, members=[member], now=now)


def judge_loss(
    unit: RunningUnit, life: Life, job: Job, *, nodes: Mapping[int, Node], now: datetime
) -> Decision | None:
    """Nodes of its places went down: None if none of its members was there, or none ran."""
    members = _members_on(unit, nodes)
    if life.is_recovering or not any(member.phase is Phase.LOST for member in members):
        return None
    return decide(_view(unit, life), job.recovery, members=members, now=now)


def judge_refusal(unit: RunningUnit, life: Life, job: Job) -> Evict:
    return judge_launch_refusal(_view(unit, life), job.recovery, message="the log says so")


def _view(unit: RunningUnit, life: Life) -> UnitView:
    return UnitView(
        status=Status.RECOVERING if life.is_recovering else Status.RUNNING,
        is_launched=not life.is_recovering,
        restarts_used=life.restarts_used,
        refused_dispatches=life.refused_dispatches,
        failed_nodes=life.failed_nodes,
        infrastructure_losses=life.infrastructure_losses,
        time_limit_at=unit.time_limit_at,
        seat_deadline_at=life.seat_deadline_at,
        loss_cause=None if life.loss is None else life.loss.cause,
        loss_message=None if life.loss is None else life.loss.message,
    )


def _members_on(unit: RunningUnit, nodes: Mapping[int, Node]) -> Sequence[MemberView]:
    """A node that is not configured any more is not lost."""
    members = []
    for place in unit.places:
        node = nodes.get(place.node_id)
        is_lost = node is not None and not node.is_ready
        members.append(
            MemberView(
                member=place.member,
                node_id=place.node_id,
                node="" if node is None else node.name,
                phase=Phase.LOST if is_lost else Phase.READY,
                is_node_lost=is_lost,
            )
        )
    return members
