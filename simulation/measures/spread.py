"""How a figure is spread over groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulation.measures.table import Floats


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Over `count` groups; with none there are no figures. Percentiles lie between the two nearest groups,
    in proportion (numpy's `linear`)."""

    count: int
    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    most: float | None = None


def spread_of(values: Floats) -> Spread:
    """NaN stands for a group that has no such figure, and is left out."""
    known = values[~np.isnan(values)]
    if not len(known):
        return Spread(count=0)
    p50, p90, p99 = np.percentile(known, (50, 90, 99))
    return Spread(
        count=len(known),
        mean=float(known.mean()),
        p50=float(p50),
        p90=float(p90),
        p99=float(p99),
        most=float(known.max()),
    )
