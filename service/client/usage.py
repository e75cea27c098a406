"""What owners used, and how long their groups are likely to run."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct


class UsageEntry(Struct, frozen=True, kw_only=True):
    """Of one user in one queue. `resource`: a flavor, `cpus` or `memory_gib`; `held_now` is an amount of it,
    the rest are amounts times hours. `hours` in all, `lost_hours` of it to the platform; `decayed_hours`:
    what is over, was charged and counts yet."""

    queue: str
    tenant: str
    user: str
    resource: str
    held_now: float
    hours: float
    lost_hours: float
    decayed_hours: float


class Usage(Struct, frozen=True, kw_only=True):
    """`half_life` None: use that is over does not count."""

    as_of: datetime
    half_life: str | None
    usage: list[UsageEntry]


class UsagePage(Struct, frozen=True, kw_only=True):
    as_of: datetime
    half_life: str | None
    usage: list[UsageEntry]
    cursor: str | None


class Runtimes(Struct, frozen=True, kw_only=True):
    """`basis` None: too few have ended to say anything. `at_limit`: of the samples, those that ran into
    their time limit and would have run on."""

    queue: str
    tenant: str
    user: str
    basis: str | None
    samples: int
    at_limit: int
    p50_seconds: float | None
    p90_seconds: float | None
