"""How the whole cluster decides, besides what each queue says."""

from __future__ import annotations

from dataclasses import dataclass, replace

from service.domain.scheduling import SchedulingSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Times in seconds.

    `reserve_depth`: for so many blocked heads of a cohort and flavor places are kept until a date (1 is
    EASY backfill, None all of them: conservative, 0 none). `guard_seconds`: after so long without
    anything but places, places are kept whatever their date. `half_life_seconds`: by how much use that is
    over counts when waiting units are ordered, 0 for not at all. `restart_cost_seconds`: lost on each GPU
    when a group is preempted, besides its work, of which `lost_work_cap_seconds` count at most.
    `fair_share_price_seconds`: a fair-share preemption that would lose more GPU-seconds than this is not
    made (None: no bound). `reclaim_delay_seconds`: so long may a minimum runtime, or evictions of the same
    day, delay the reclaim of nominal quota. `resize_interval_seconds`: a group is not resized again before.
    """

    reserve_depth: int | None = 1
    guard_seconds: float = 86_400.0
    half_life_seconds: float = 0.0
    restart_cost_seconds: float = 60.0
    lost_work_cap_seconds: float = 86_400.0
    fair_share_price_seconds: float | None = None
    reclaim_delay_seconds: float = 0.0
    resize_interval_seconds: float = 600.0


DEFAULT = Policy()


def policy_as_said(policy: Policy, scheduling: SchedulingSettings) -> Policy:
    """`policy` with everything that admins have said. The leader, a check and a replay all decide by this."""
    said = scheduling.said
    unbounded = {name: None for name, value in said.items() if value in ("all", "none")}
    return replace(policy, **{**said, **unbounded})
