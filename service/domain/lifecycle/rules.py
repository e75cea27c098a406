"""The rules by which a unit that holds places moves on, in the order in which they are looked at.

They are the architecture's section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from service.domain.lifecycle.deadlines import judge_deadlines
from service.domain.lifecycle.decisions import Advance, Decision, Evict, Recover, Succeed
from service.domain.lifecycle.facts import MemberView, Policy, UnitView
from service.domain.lifecycle.members import judge_members
from service.domain.status import Cause, Status


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
        verdict = judge_members(unit, policy, members=members, now=now)
        if isinstance(verdict, Succeed | Evict | Recover):
            return verdict
    else:
        verdict = None
    # 2. Deadlines that are over.
    overdue = judge_deadlines(unit, policy, is_running_now=_reaches(verdict, Status.RUNNING), now=now)
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


def _reaches(verdict: Decision | None, status: Status) -> bool:
    return isinstance(verdict, Advance) and verdict.to is status
