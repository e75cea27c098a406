"""Figures as people read them."""

from __future__ import annotations

from itertools import pairwise

_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def span(seconds: float) -> str:
    """Its two largest units: `1d 07h`, `12m 05s`; below a minute with a decimal."""
    if seconds < 59.95:
        return f"{seconds:.1f}s" if 0 < seconds < 9.95 else f"{seconds:.0f}s"
    whole = round(seconds)
    for (unit, size), (below, part) in pairwise(_UNITS):
        if whole >= size:
            return f"{whole // size}{unit} {whole % size // part:02d}{below}"
    return f"{whole}s"


def percent(part: float) -> str:
    return f"{100 * part:.1f} %"


def count(number: float) -> str:
    return f"{number:,.0f}"


def decimal(number: float) -> str:
    """Three digits that mean something, or all before the point."""
    if number >= 100:
        return f"{number:,.0f}"
    return f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def index(number: float) -> str:
    return f"{number:.3f}"


def hours(seconds: float) -> str:
    """GPU-hours of GPU-seconds."""
    return f"{decimal(seconds / 3600)} h"
