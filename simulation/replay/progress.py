"""How far a replay has come."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """`now`: on the virtual clock. Groups that were `submitted` and that have `ended`, and what waits."""

    now: datetime
    submitted: int
    ended: int
    waiting: int
    cycles: int
