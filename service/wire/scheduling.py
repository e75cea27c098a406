"""How the whole cluster decides, as a request says it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from service.domain.scheduling import SchedulingSettings
from service.wire.said import Readers, as_said, read_said
from service.wire.values import Duration, RequestStruct, duration_text, seconds_of

Depth: TypeAlias = Annotated[int, Meta(ge=0, le=999_999)] | Literal["all"]
#: In GPU-seconds.
Price: TypeAlias = Annotated[int, Meta(ge=0, le=1_000_000_000)] | Literal["none"]


class SchedulingRequest(RequestStruct, frozen=True, kw_only=True):
    """What is not said has the value of the worker's variable. `reserve_depth`: for so many blocked heads of
    a cohort and flavor places are kept until a date: 1 is EASY backfill, `all` conservative, 0 none. `guard`:
    after so long without anything but places, places are kept whatever their date. `half_life`: what was used
    and is over counts half after so long, 0 for not at all. `restart_cost` and `lost_work_cap`: what a
    preemption loses on each GPU besides the work, and how much of the work counts at most.
    `fair_share_price`: GPU-seconds; a preemption for a fair share that loses more is not made (`none`: no
    bound). `reclaim_delay`: so long may protections delay who takes nominal quota back. `resize_interval`: an
    elastic group is not resized again before."""

    reserve_depth: Depth | UnsetType = UNSET
    guard: Duration | UnsetType = UNSET
    half_life: Duration | UnsetType = UNSET
    restart_cost: Duration | UnsetType = UNSET
    lost_work_cap: Duration | UnsetType = UNSET
    fair_share_price: Price | UnsetType = UNSET
    reclaim_delay: Duration | UnsetType = UNSET
    resize_interval: Duration | UnsetType = UNSET


def scheduling_settings(said: SchedulingRequest) -> SchedulingSettings:
    """Raises InvalidRequest that names the field."""
    return SchedulingSettings(**read_said(said, _READERS))


def scheduling_fields(settings: SchedulingSettings) -> dict[str, Any]:
    """What is said, under the names of the wire."""
    said = settings.said
    return {
        field: duration_text(said[kept]) if read is _seconds else said[kept]
        for field, (kept, read) in _READERS.items()
        if kept in said
    }


def _seconds(value: str | float, field: str) -> int:
    return seconds_of(value, field=field)


_READERS: Readers = {
    "reserve_depth": ("reserve_depth", as_said),
    "guard": ("guard_seconds", _seconds),
    "half_life": ("half_life_seconds", _seconds),
    "restart_cost": ("restart_cost_seconds", _seconds),
    "lost_work_cap": ("lost_work_cap_seconds", _seconds),
    "fair_share_price": ("fair_share_price_seconds", as_said),
    "reclaim_delay": ("reclaim_delay_seconds", _seconds),
    "resize_interval": ("resize_interval_seconds", _seconds),
}
