"""Claims: places that are kept for a unit which does not hold them yet."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from service.domain.node import Place


class ClaimCause(StrEnum):
    """`Head`: it is the next in its order and its start can be dated. `Guard`: it has lacked nothing but
    places for its guard time. `Preemption`: others are being evicted for it."""

    HEAD = "Head"
    GUARD = "Guard"
    PREEMPTION = "Preemption"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Not a hold, not usage, not quota. `places` are all that the unit needs, also those that others
    still hold; of a waiting range, those of its first member. `unit_id` is the row that waits; `due_at` is
    when the places should be free, None where somebody on them has no time limit. `redated` counts dates
    that passed."""

    unit_id: int
    cause: ClaimCause
    made_at: datetime
    due_at: datetime | None
    places: tuple[Place, ...]
    redated: int = 0
