"""Preemptions: by what right, and what became of them."""

from __future__ import annotations

from enum import StrEnum


class Entitlement(StrEnum):
    """By what right one unit may take the places of another."""

    PRIORITY = "Priority"
    RECLAIM = "Reclaim"
    FAIR_SHARE = "FairShare"


class Protection(StrEnum):
    """What keeps a running unit from giving way, for a time: names of the settings that say so."""

    MIN_RUNTIME = "min_runtime"
    EVICTIONS_PER_DAY = "evictions_per_day"
    RESIZE_INTERVAL = "resize_interval"


class PreemptionOutcome(StrEnum):
    """Whether the unit for which others gave way was admitted, or lost its claim before."""

    STARTED = "Started"
    WASTED = "Wasted"


class WasteCause(StrEnum):
    """Why nobody used what was freed: the claimant ended; it may not start any more (held, its queue
    stopped, its quota lowered); or a place that it claimed was lost (a node or device, or somebody holds
    it)."""

    CLAIMANT_ENDED = "ClaimantEnded"
    ENTITLEMENT_LOST = "EntitlementLost"
    PLACE_LOST = "PlaceLost"
