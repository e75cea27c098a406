"""What happens to a unit that holds places: decided from its row, its members and the time.

`decide` and `judge_launch` are pure. They say what should happen as a value; None means that
nothing does. The rules, in the order in which they are looked at, are the architecture's section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from math import inf

from service.domain.group import OnMemberLoss
from service.domain.status import Cause, Status

#: After infrastructure failures on so many different nodes a unit is queued again, held.
NODES_BEFORE_HOLD = 3

#: At so many infrastructure failures within one attempt, wherever, a unit leaves its places: what
#: fails there again and again is not waited for in place.
LOSSES_BEFORE_REQUEUE = 3

#: The wait after a refused dispatch doubles, at most so often.
_MAX_DOUBLINGS = 6


class Phase(StrEnum):
    """What is known of a member. `Lost`: gone without an exit code."""

    UNKNOWN = "Unknown"
    STARTING = "Starting"
    READY = "Ready"
    ENDED = "Ended"
    LOST = "Lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """One member of the present generation. `log_tail`: its last lines, already free of secrets.
    `is_node_lost`: its node is down or was started anew, which is why a Lost one is."""

    member: int
    node_id: int
    node: str
    phase: Phase = Phase.UNKNOWN
    exit_code: int | None = None
    ended_at: datetime | None = None
    was_told_to_stop: bool = False
    cannot_execute: bool = False
    detail: str | None = None
    log_tail: str | None = None
    is_node_lost: bool = False

    @property
    def has_succeeded(self) -> bool:
        """An exit 0 after being told to stop is no success."""
        return self.phase is Phase.ENDED and self.exit_code == 0 and not self.was_told_to_stop

    @property
    def has_failed(self) -> bool:
        return self.phase is Phase.ENDED and not self.has_succeeded

    @property
    def is_ready(self) -> bool:
        """A member that ended with 0 counts as having been ready."""
        return self.phase is Phase.READY or self.has_succeeded


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the owner and the operator chose. Times in seconds."""

    on_member_loss: OnMemberLoss = OnMemberLoss.RESTART_GROUP
    max_restarts: int = 3
    backoff_seconds: int = 30
    seat_timeout_seconds: int = 600
    max_dispatches: int = 5
    dispatch_backoff_seconds: int = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitView:
    """The unit and its attempt. `is_launched`: the present generation was handed to the launcher
    and is not being stopped. `infrastructure_losses`: how often this attempt has started again in place
    for no fault of its own. `start_deadline_at` None: it has none, or has been Running in this attempt.
    `loss_cause` and `loss_message` tell why it is Recovering. `down_nodes`: nodes of its places that
    are not ready."""

    status: Status
    is_launched: bool
    restarts_used: int = 0
    refused_dispatches: int = 0
    failed_nodes: tuple[int, ...] = ()
    infrastructure_losses: int = 0
    start_deadline_at: datetime | None = None
    time_limit_at: datetime | None = None
    seat_deadline_at: datetime | None = None
    loss_cause: Cause | None = None
    loss_message: str | None = None
    down_nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """The unit is now Starting or Running."""

    to: Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Succeed:
    ended_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Recover:
    """Stop all members and start them again in place, as the next generation. `failed_nodes`: where
    members were lost; `lost_nodes`: those of them that went down."""

    cause: Cause
    message: str
    seat_deadline_at: datetime
    counts_restart: bool = False
    failed_nodes: tuple[int, ...] = ()
    lost_nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict:
    """End the attempt. The target is Pending (next attempt), Failed or Cancelled; `backoff_seconds`
    run from the moment it is queued again, None for no wait. `is_held`: it is queued held.
    `failed_nodes`: where members were lost; `lost_nodes`: those of them that went down."""

    target: Status
    cause: Cause
    message: str
    backoff_seconds: int | None = None
    counts_restart: bool = False
    counts_refusal: bool = False
    is_held: bool = False
    failed_nodes: tuple[int, ...] = ()
    lost_nodes: tuple[int, ...] = ()


Decision = Advance | Succeed | Recover | Evict


def decide(
    unit: UnitView, policy: Policy, *, members: Sequence[MemberView], now: datetime
) -> Decision | None:
    """What happens to a unit in Admitted, Starting, Running or Recovering."""
    if unit.status is Status.EVICTING:
        return None
    # 1. What the members say comes before any deadline: what ended well ended well, also if nobody had
    # looked when the deadline passed. An eviction that was committed before anybody looked stands: there
    # is no edge from Evicting to Succeeded.
    if unit.is_launched:
        verdict = _judge_members(unit, policy, members=members, now=now)
        if isinstance(verdict, Succeed | Evict | Recover):
            return verdict
    else:
        verdict = None
    # 2. Deadlines that are over.
    overdue = _judge_deadlines(unit, policy, is_running_now=_reaches(verdict, Status.RUNNING), now=now)
    if overdue is not None:
        return overdue
    # 3. A place is gone before the first start: another is looked for.
    if unit.status is Status.ADMITTED and not unit.is_launched and unit.down_nodes:
        return Evict(
            target=Status.PENDING,
            cause=Cause.INFRASTRUCTURE,
            message="A node of its places went down before it was started.",
        )
    return verdict


def judge_launch_refusal(unit: UnitView, policy: Policy, *, message: str) -> Evict:
    """The launcher refuses to start the unit: it backs off, longer each time, and in the end fails."""
    refused = unit.refused_dispatches + 1
    if refused >= policy.max_dispatches:
        return Evict(
            target=Status.FAILED,
            cause=Cause.INFRASTRUCTURE,
            message=f"The launcher refused to start it {refused} times: {message}",
            counts_refusal=True,
        )
    doublings = min(unit.refused_dispatches, _MAX_DOUBLINGS)
    return Evict(
        target=Status.PENDING,
        cause=Cause.INFRASTRUCTURE,
        message=f"The launcher refused to start it: {message}",
        backoff_seconds=policy.dispatch_backoff_seconds * 2**doublings,
        counts_refusal=True,
    )


def judge_launch_conflict(policy: Policy, message: str) -> Evict:
    """The same attempt runs with other places: the unit gets its next attempt (X7)."""
    return Evict(
        target=Status.PENDING,
        cause=Cause.INFRASTRUCTURE,
        message=f"Its attempt runs already, in other places: {message}",
        backoff_seconds=policy.backoff_seconds,
    )


def judge_cannot_execute(member: int, node: str, *, message: str | None) -> Evict:
    """No restart will make a command executable: the unit fails at once."""
    why = f": {message}" if message else ""
    return Evict(
        target=Status.FAILED,
        cause=Cause.USER_ERROR,
        message=f"The command of member {member} cannot be executed on {node}{why}",
    )


def judge_survivors(policy: Policy) -> Evict:
    """A restart in place whose old members cannot be ended: the unit leaves those places."""
    return Evict(
        target=Status.PENDING,
        cause=Cause.INFRASTRUCTURE,
        message="Its old members survived SIGKILL, so it cannot start again in place.",
        backoff_seconds=policy.backoff_seconds,
    )


def _reaches(verdict: Decision | None, status: Status) -> bool:
    return isinstance(verdict, Advance) and verdict.to is status


# ---------------------------------------------------------------- members
def _judge_members(
    unit: UnitView, policy: Policy, *, members: Sequence[MemberView], now: datetime
) -> Decision | None:
    for member in members:
        if member.cannot_execute:
            return judge_cannot_execute(member.member, member.node, message=member.detail)
    if all(member.has_succeeded for member in members):
        return Succeed(ended_at=max((m.ended_at for m in members if m.ended_at is not None), default=now))
    lost = [member for member in members if member.phase is Phase.LOST]
    if lost:
        # A node that goes down makes its peers fail too: that is not their fault.
        return _judge_infrastructure(unit, policy, lost=lost, now=now)
    failed = [member for member in members if member.has_failed]
    if any(member.was_told_to_stop for member in failed):
        # Its peers may have failed for that.
        return _judge_stopped(unit, policy, failed=failed, now=now)
    if failed:
        return _judge_user_error(unit, policy, member=first_failed(failed), now=now)
    return _judge_progress(unit, members)


def _judge_progress(unit: UnitView, members: Sequence[MemberView]) -> Decision | None:
    if all(member.is_ready for member in members):
        return None if unit.status is Status.RUNNING else Advance(to=Status.RUNNING)
    if unit.status is Status.ADMITTED and any(member.phase is not Phase.UNKNOWN for member in members):
        return Advance(to=Status.STARTING)
    return None


def first_failed(failed: Sequence[MemberView]) -> MemberView:
    """The failure that came first: the others often follow from it."""
    return min(failed, key=lambda m: (m.ended_at.timestamp() if m.ended_at else inf, m.member))


def _judge_user_error(unit: UnitView, policy: Policy, *, member: MemberView, now: datetime) -> Decision:
    message = _end_of(member)
    if policy.on_member_loss is OnMemberLoss.FAIL:
        return Evict(target=Status.FAILED, cause=Cause.USER_ERROR, message=message)
    if unit.restarts_used >= policy.max_restarts:
        return Evict(
            target=Status.FAILED,
            cause=Cause.USER_ERROR,
            message=f"{_restarts(policy)} {message}",
        )
    return Recover(
        cause=Cause.USER_ERROR,
        message=message,
        seat_deadline_at=_seat_deadline(unit, policy, now=now),
        counts_restart=True,
    )


def _judge_infrastructure(
    unit: UnitView, policy: Policy, *, lost: Sequence[MemberView], now: datetime
) -> Decision:
    nodes = tuple(sorted({member.node_id for member in lost}))
    down = tuple(sorted({member.node_id for member in lost if member.is_node_lost}))
    names = ", ".join(sorted({member.node for member in lost}))
    which = ", ".join(str(member.member) for member in lost)
    who = f"Member {which} was" if len(lost) == 1 else f"Members {which} were"
    why = next((f": {member.detail}" for member in lost if member.detail), "")
    message = f"{who} lost {'with' if nodes == down else 'on'} {names}{why}"
    decision = _restart_elsewhere_or_in_place(unit, policy, message=message, nodes=nodes, now=now)
    return replace(decision, lost_nodes=down)


def _judge_stopped(
    unit: UnitView, policy: Policy, *, failed: Sequence[MemberView], now: datetime
) -> Decision:
    """Nobody here decided that its members should stop: `muster down --stop`, or an operator, told
    them. That is neither their fault nor a node's."""
    which = ", ".join(str(member.member) for member in failed)
    message = f"Member {which} was stopped from outside"
    return _restart_elsewhere_or_in_place(unit, policy, message=message, nodes=(), now=now)


def _restart_elsewhere_or_in_place(
    unit: UnitView, policy: Policy, *, message: str, nodes: tuple[int, ...], now: datetime
) -> Evict | Recover:
    """Infrastructure failed it: no restart is used up. In place, unless that keeps failing."""
    evict = Evict(target=Status.PENDING, cause=Cause.INFRASTRUCTURE, message=message, failed_nodes=nodes)
    if policy.on_member_loss is OnMemberLoss.FAIL:
        return replace(evict, target=Status.FAILED)
    failed = set(unit.failed_nodes) | set(nodes)
    if nodes and len(failed) >= NODES_BEFORE_HOLD:
        held = f"On hold: its members were lost on {len(failed)} different nodes. {message}"
        return replace(evict, message=held, is_held=True)
    losses = unit.infrastructure_losses + 1
    if losses >= LOSSES_BEFORE_REQUEUE:
        often = f"It failed {losses} times in these places through no fault of its own. {message}"
        return replace(evict, message=often, backoff_seconds=policy.backoff_seconds)
    return Recover(
        cause=Cause.INFRASTRUCTURE,
        message=message,
        seat_deadline_at=_seat_deadline(unit, policy, now=now),
        failed_nodes=nodes,
    )


def _seat_deadline(unit: UnitView, policy: Policy, *, now: datetime) -> datetime:
    """It runs from when the loss was seen; a second loss before the unit runs again extends nothing."""
    return unit.seat_deadline_at or now + timedelta(seconds=policy.seat_timeout_seconds)


def _end_of(member: MemberView) -> str:
    tail = member.log_tail or member.detail
    return f"Member {member.member} exited with code {member.exit_code} on {member.node}" + (
        f": {tail}" if tail else ""
    )


def _restarts(policy: Policy) -> str:
    if policy.max_restarts == 0:
        return "No restarts are allowed."
    return f"Its restarts are used up ({policy.max_restarts} of {policy.max_restarts})."


# ---------------------------------------------------------------- deadlines
#: Recovering too, if it came there from Starting: a start in place sets no deadline back.
_BEFORE_RUNNING = (Status.ADMITTED, Status.STARTING, Status.RECOVERING)


def _judge_deadlines(unit: UnitView, policy: Policy, *, is_running_now: bool, now: datetime) -> Evict | None:
    if _is_over(unit.time_limit_at, now):
        return Evict(
            target=Status.FAILED,
            cause=Cause.TIME_LIMIT,
            message="Its time limit, which runs from admission, is over.",
        )
    if is_running_now:
        return None
    if unit.status is Status.RECOVERING and _is_over(unit.seat_deadline_at, now):
        return Evict(
            target=Status.PENDING,
            cause=unit.loss_cause or Cause.UNKNOWN,
            message="It was not running again in place before its seat deadline."
            + (f" {unit.loss_message}" if unit.loss_message else ""),
            backoff_seconds=policy.backoff_seconds,
        )
    if unit.status in _BEFORE_RUNNING and _is_over(unit.start_deadline_at, now):
        return _judge_start_timeout(unit, policy)
    return None


def _judge_start_timeout(unit: UnitView, policy: Policy) -> Evict:
    """A start that takes too long counts as a restart, unless the platform is to blame: a node went
    down or failed it, or the launcher never had the unit."""
    message = "It was not running before its start timeout, which runs from admission."
    if unit.down_nodes or not unit.is_launched or unit.loss_cause is Cause.INFRASTRUCTURE:
        return Evict(
            target=Status.PENDING,
            cause=Cause.INFRASTRUCTURE,
            message=message,
            backoff_seconds=policy.backoff_seconds,
        )
    if policy.on_member_loss is OnMemberLoss.FAIL or unit.restarts_used >= policy.max_restarts:
        return Evict(target=Status.FAILED, cause=Cause.USER_ERROR, message=message)
    return Evict(
        target=Status.PENDING,
        cause=Cause.USER_ERROR,
        message=message,
        backoff_seconds=policy.backoff_seconds,
        counts_restart=True,
    )


def _is_over(deadline: datetime | None, now: datetime) -> bool:
    return deadline is not None and deadline <= now
