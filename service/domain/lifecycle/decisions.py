"""What can happen to a unit that holds places, as values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from service.domain.status import Cause, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """The unit is now Starting or Running."""

    to: Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Succeed:
    ended_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Recover:
    """Stop all members and start them again in place, as the next generation. `failed_nodes`: where
    members were lost; `lost_nodes`: those of them that went down."""

    cause: Cause
    message: str
    seat_deadline_at: datetime
    counts_restart: bool = False
    failed_nodes: tuple[int, ...] = ()
    lost_nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict:
    """End the attempt. The target is Pending (next attempt), Failed or Cancelled; `backoff_seconds`
    run from the moment it is queued again, None for no wait. `is_held`: it is queued held.
    `failed_nodes`: where members were lost; `lost_nodes`: those of them that went down."""

    target: Status
    cause: Cause
    message: str
    backoff_seconds: int | None = None
    counts_restart: bool = False
    counts_refusal: bool = False
    is_held: bool = False
    failed_nodes: tuple[int, ...] = ()
    lost_nodes: tuple[int, ...] = ()


Decision = Advance | Succeed | Recover | Evict
