"""What follows when a deadline of an attempt is over."""

from __future__ import annotations

from datetime import datetime

from service.domain.group import OnMemberLoss
from service.domain.lifecycle.decisions import Evict
from service.domain.lifecycle.facts import Policy, UnitView
from service.domain.status import Cause, Status

#: Recovering too, if it came there from Starting: a start in place sets no deadline back.
_BEFORE_RUNNING = (Status.ADMITTED, Status.STARTING, Status.RECOVERING)


def judge_deadlines(unit: UnitView, policy: Policy, *, is_running_now: bool, now: datetime) -> Evict | None:
    """None if no deadline that still counts is over. `is_running_now`: its members have just become so."""
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
