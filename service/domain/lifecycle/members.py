"""What follows from what is seen of the members."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from service.domain.lifecycle.decisions import Advance, Decision, Succeed
from service.domain.lifecycle.facts import MemberView, Phase, Policy, UnitView, first_failed
from service.domain.lifecycle.launches import judge_cannot_execute
from service.domain.lifecycle.losses import judge_infrastructure, judge_stopped, judge_user_error
from service.domain.status import Status


def judge_members(
    unit: UnitView, policy: Policy, *, members: Sequence[MemberView], now: datetime
) -> Decision | None:
    """What a launched unit does next if no deadline is over. None: it goes on as it is."""
    for member in members:
        if member.cannot_execute:
            return judge_cannot_execute(member.member, member.node, message=member.detail)
    if all(member.has_succeeded for member in members):
        return Succeed(ended_at=max((m.ended_at for m in members if m.ended_at is not None), default=now))
    lost = [member for member in members if member.phase is Phase.LOST]
    if lost:
        # A node that goes down makes its peers fail too: that is not their fault.
        return judge_infrastructure(unit, policy, lost=lost, now=now)
    failed = [member for member in members if member.has_failed]
    if any(member.was_told_to_stop for member in failed):
        # Its peers may have failed for that.
        return judge_stopped(unit, policy, failed=failed, now=now)
    if failed:
        return judge_user_error(unit, policy, member=first_failed(failed), now=now)
    return _judge_progress(unit, members)


def _judge_progress(unit: UnitView, members: Sequence[MemberView]) -> Decision | None:
    if all(member.is_ready for member in members):
        return None if unit.status is Status.RUNNING else Advance(to=Status.RUNNING)
    if unit.status is Status.ADMITTED and any(member.phase is not Phase.UNKNOWN for member in members):
        return Advance(to=Status.STARTING)
    return None
