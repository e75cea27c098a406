"""Where a group stands and why it waits, as the last finished cycle left it."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct


class Position(Struct, frozen=True, kw_only=True):
    """The first has position 1. None if nothing of the group waits, or it may not start now."""

    id: str
    queue: str
    is_waiting: bool
    position: int | None
    overall_position: int | None
    queue_length: int
    as_of: datetime | None
    cycle_id: int | None
    #: The date of its claim.
    planned_start_at: datetime | None
    #: When its guard runs out, if nothing but places is missing until then; None while more is.
    guard_at: datetime | None = None
    guard_left_seconds: int | None = None


class Reason(Struct, frozen=True, kw_only=True):
    """One blocker. `need`, `have` and `limit` are in the unit of the resource that `scope` names
    (GPUs, thousandths of a CPU, MiB). Of holders of other owners only the number is told."""

    code: str
    message: str
    need: int | None
    have: int | None
    limit: int | None
    scope: dict[str, str]
    holders: list[str]
    other_holders: int
    since: datetime | None
    cycle_id: int | None


class Reasons(Struct, frozen=True, kw_only=True):
    """All that blocks a group at once, the most decisive first."""

    id: str
    queue: str
    is_waiting: bool
    position: int | None
    as_of: datetime | None
    cycle_id: int | None
    reasons: list[Reason]


class Forecast(Struct, frozen=True, kw_only=True):
    """When it is likely to start: as likely as not until `p50_at`, nine times in ten until `p90_at`. `basis`
    (`claim`, `waits`) None: nothing is known, and `assumptions` say why."""

    id: str
    queue: str
    is_waiting: bool
    basis: str | None
    p50_at: datetime | None
    p90_at: datetime | None
    samples: int
    assumptions: list[str]
    planned_start_at: datetime | None
