"""What the ledger of usage should say, reckoned the slow way from what was closed."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Any

from tests.integration.dispatch.site import Site

_SLICES = 4_000
_NOT_CHARGED = ("Infrastructure", "Preempted")

Held = tuple[float, float]


def held_and_lost(site: Site) -> dict[str, Held]:
    """Amount-seconds of all closed attempts, and of those that were not their owner's doing, by resource."""
    found: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row in _closed(site):
        for resource, amount in row.usage.items():
            seconds = amount * (row.ended_at - row.admitted_at).total_seconds()
            found[resource][0] += seconds
            found[resource][1] += seconds if row.cause in _NOT_CHARGED else 0.0
    return {resource: (held, lost) for resource, (held, lost) in found.items() if held}


def counts_at(site: Site, now: datetime, *, half_life: float) -> dict[str, float]:
    """The integral of what was charged, each instant weighed by its age at `now`, in small slices."""
    found: dict[str, float] = defaultdict(float)
    for row in _closed(site):
        if row.cause in _NOT_CHARGED:
            continue
        seconds = (row.ended_at - row.admitted_at).total_seconds()
        ended = (now - row.ended_at).total_seconds()
        width = seconds / _SLICES
        ages = (ended + (number + 0.5) * width for number in range(_SLICES))
        weight = sum(2.0 ** (-age / half_life) for age in ages) * width
        for resource, amount in row.usage.items():
            found[resource] += amount * weight
    return {resource: amount for resource, amount in found.items() if amount}


def ledger(site: Site) -> dict[str, Held]:
    rows = site.rows("SELECT resource, sum(held_seconds) AS h, sum(lost_seconds) AS l FROM usage GROUP BY 1")
    return {row.resource: (row.h, row.l) for row in rows if row.h}


def ledger_at(site: Site, now: datetime, *, half_life: float) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for row in site.rows("SELECT resource, decayed_seconds, as_of FROM usage"):
        age = (now - row.as_of).total_seconds()
        found[row.resource] += row.decayed_seconds * 2.0 ** (-age / half_life)
    return {resource: amount for resource, amount in found.items() if amount}


def _closed(site: Site) -> list[Any]:
    return site.rows("SELECT usage, admitted_at, ended_at, cause FROM closed_attempts")
