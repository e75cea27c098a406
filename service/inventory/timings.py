"""Times as histograms: counted by one process, kept in Redis, shown by another's /metrics."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

#: Upper bounds of a histogram, in seconds; what is above them is counted apart.
EDGES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_BEYOND = len(EDGES)


@dataclass(slots=True, kw_only=True)
class Timings:
    """`buckets[i]`: how many took at most `EDGES[i]` and more than the edge before, the last one those
    beyond all edges."""

    buckets: list[int] = field(default_factory=lambda: [0] * (_BEYOND + 1))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        self.buckets[bisect_left(EDGES, seconds)] += 1
        self.seconds += seconds

    @property
    def total(self) -> int:
        return sum(self.buckets)

    def increments(self) -> dict[str, int]:
        """By field of their hash, without zeros."""
        return {_field(bucket): count for bucket, count in enumerate(self.buckets) if count}


def timing_fields() -> list[str]:
    """The fields of a hash that `timings_from` wants to see."""
    return [*(_field(bucket) for bucket in range(_BEYOND + 1)), "seconds"]


def timings_from(values: Sequence[bytes | str | None]) -> Timings:
    """From the values of `timing_fields`."""
    *buckets, seconds = values
    return Timings(buckets=[int(count or 0) for count in buckets], seconds=float(seconds or 0))


def _field(bucket: int) -> str:
    return f"bucket:{bucket}"
