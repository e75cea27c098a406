"""What admins say of how the whole cluster decides, besides what each queue says."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingSettings:
    """None: not said, so what the worker's variable says holds. Times in seconds, and what each does as in
    the planner's policy. `reserve_depth`: of blocked heads, or `all` of them. `fair_share_price_seconds`: in
    GPU-seconds, or `none` for no bound."""

    reserve_depth: int | Literal["all"] | None = None
    guard_seconds: int | None = None
    half_life_seconds: int | None = None
    restart_cost_seconds: int | None = None
    lost_work_cap_seconds: int | None = None
    fair_share_price_seconds: int | Literal["none"] | None = None
    reclaim_delay_seconds: int | None = None
    resize_interval_seconds: int | None = None

    @property
    def said(self) -> dict[str, Any]:
        """What is said, by field."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


#: Nothing is said.
UNSAID = SchedulingSettings()
