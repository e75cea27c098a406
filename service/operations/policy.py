"""How the whole cluster decides, as its settings say."""

from __future__ import annotations

from service.admission.policy import Policy
from service.settings import Settings


def policy_of(settings: Settings) -> Policy:
    depth = settings.reserve_depth
    return Policy(
        reserve_depth=None if depth == "all" else int(depth),
        guard_seconds=settings.guard_seconds,
        half_life_seconds=settings.half_life_seconds,
    )
