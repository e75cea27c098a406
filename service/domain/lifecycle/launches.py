"""What follows when a launcher cannot start an attempt as it was asked to."""

from __future__ import annotations

from service.domain.lifecycle.decisions import Evict
from service.domain.lifecycle.facts import Policy, UnitView
from service.domain.status import Cause, Status

#: The wait after a refused dispatch doubles, at most so often.
_MAX_DOUBLINGS = 6


def judge_launch_refusal(unit: UnitView, policy: Policy, *, message: str) -> Evict:
    """The launcher refuses to start the unit: it backs off, longer each time, and in the end fails."""
    refused = unit.refused_dispatches + 1
    if refused >= policy.max_dispatches:
        return Evict(
            target=Status.FAILED,
            cause=Cause.INFRASTRUCTURE,
            message=f"The launcher refused to start it {_times(refused)}: {message}",
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


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


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
