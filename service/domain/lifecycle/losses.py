"""What follows when members were lost or have failed: a restart in place, elsewhere, or the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from service.domain.group import OnMemberLoss
from service.domain.lifecycle.decisions import Decision, Evict, Recover
from service.domain.lifecycle.facts import MemberView, Policy, UnitView
from service.domain.status import Cause, Status

#: After infrastructure failures on so many different nodes a unit is queued again, held.
NODES_BEFORE_HOLD = 3

#: At so many infrastructure failures within one attempt, wherever, a unit leaves its places: what
#: fails there again and again is not waited for in place.
LOSSES_BEFORE_REQUEUE = 3


def judge_user_error(unit: UnitView, policy: Policy, *, member: MemberView, now: datetime) -> Decision:
    """A member has failed by itself: that uses up a restart."""
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


def judge_infrastructure(
    unit: UnitView, policy: Policy, *, lost: Sequence[MemberView], now: datetime
) -> Decision:
    """Members are gone without an exit code: whoever wrote the program is not to blame."""
    nodes = tuple(sorted({member.node_id for member in lost}))
    down = tuple(sorted({member.node_id for member in lost if member.is_node_lost}))
    names = ", ".join(sorted({member.node for member in lost}))
    which = ", ".join(str(member.member) for member in lost)
    who = f"Member {which} was" if len(lost) == 1 else f"Members {which} were"
    why = next((f": {member.detail}" for member in lost if member.detail), "")
    message = f"{who} lost {'with' if nodes == down else 'on'} {names}{why}"
    decision = _restart_elsewhere_or_in_place(unit, policy, message=message, nodes=nodes, now=now)
    return replace(decision, lost_nodes=down)


def judge_stopped(unit: UnitView, policy: Policy, *, failed: Sequence[MemberView], now: datetime) -> Decision:
    """Nobody here decided that its members should stop: `muster down --stop`, or an operator, told
    them. That is neither their fault nor a node's."""
    which = ", ".join(str(member.member) for member in failed)
    message = f"Member {which} was stopped from outside"
    return _restart_elsewhere_or_in_place(unit, policy, message=message, nodes=(), now=now)


def judge_survivors(policy: Policy) -> Evict:
    """A restart in place whose old members cannot be ended: the unit leaves those places."""
    return Evict(
        target=Status.PENDING,
        cause=Cause.INFRASTRUCTURE,
        message="Its old members survived SIGKILL, so it cannot start again in place.",
        backoff_seconds=policy.backoff_seconds,
    )


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
