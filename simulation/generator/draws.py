"""What single jobs are drawn from. `draw` is the only source of chance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

T = TypeVar("T")

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0
#: People ask for these, and above them for whole days.
_ROUND_LIMITS = (15 * _MINUTE, _HOUR, 4 * _HOUR, 12 * _HOUR, _DAY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lognormal:
    """`median` and bounds in seconds; `sigma`: of the logarithm."""

    median: float
    sigma: float
    least: float
    most: float

    def draw(self, draw: Random) -> float:
        """A whole number of seconds: what lies outside of the bounds is moved to them."""
        seconds = self.median * math.exp(self.sigma * draw.gauss(0.0, 1.0))
        return float(round(min(self.most, max(self.least, seconds))))


def draw_of(shares: Mapping[T, float], draw: Random) -> T:
    """One of the keys, each as often as its share says."""
    return draw.choices(list(shares), weights=list(shares.values()))[0]


def draw_limit(runtime_seconds: float, draw: Random) -> float:
    """What a user asks for who knows little: the real time × U(1, 5), rounded up to 15 minutes, 1, 4, 12 or
    24 hours, and above that to whole days."""
    return rounded_limit(runtime_seconds * draw.uniform(1.0, 5.0))


def rounded_limit(seconds: float) -> float:
    for limit in _ROUND_LIMITS:
        if seconds <= limit:
            return limit
    return math.ceil(seconds / _DAY) * _DAY


def arrivals(works: Sequence[float], draw: Random, *, gpus: int, load: float) -> list[float]:
    """Seconds from the first job on, Poisson. `works`: GPU-seconds of each job; `load`: of what `gpus` can
    do, how much is asked for on average."""
    mean_gap = sum(works) / len(works) / (load * gpus)
    at, found = 0.0, []
    for _ in works:
        found.append(round(at, 3))
        at += draw.expovariate(1.0 / mean_gap)
    return found
