"""How the whole cluster decides, as its settings say."""

from __future__ import annotations

from service.admission.policy import Policy
from service.settings import Settings


def policy_of(settings: Settings) -> Policy:
    depth, price = settings.reserve_depth, settings.fair_share_price_seconds
    return Policy(
        reserve_depth=None if depth == "all" else int(depth),
        guard_seconds=settings.guard_seconds,
        half_life_seconds=settings.half_life_seconds,
        restart_cost_seconds=settings.restart_cost_seconds,
        lost_work_cap_seconds=settings.lost_work_cap_seconds,
        fair_share_price_seconds=None if price == "none" else float(price),
        reclaim_delay_seconds=settings.reclaim_delay_seconds,
        resize_interval_seconds=settings.resize_interval_seconds,
    )
