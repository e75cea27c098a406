"""How long cycles take and how large they are: counted by the worker, shown by /metrics.

Counters live in Redis, because the process that runs cycles is not the one that is scraped.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

import redis

from service.inventory.keys import CYCLES_STATS

#: Upper bounds of the histogram of cycle times, in seconds; what is above them is counted apart.
EDGES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_BEYOND = len(EDGES)


@dataclass(slots=True, kw_only=True)
class CycleStats:
    """`buckets[i]`: cycles that took at most `EDGES[i]` and more than the edge before, the last one
    those beyond all edges. `waiting`: rows that waited after the last counted cycle."""

    buckets: list[int] = field(default_factory=lambda: [0] * (_BEYOND + 1))
    seconds: float = 0.0
    admitted: int = 0
    waiting: int = 0

    @property
    def cycles(self) -> int:
        return sum(self.buckets)

    def count(self, seconds: float, *, admitted: int, waiting: int) -> None:
        """Add one cycle."""
        self.buckets[bisect_left(EDGES, seconds)] += 1
        self.seconds += seconds
        self.admitted += admitted
        self.waiting = waiting


def add_cycle_stats(client: redis.Redis, stats: CycleStats) -> None:
    """Add `stats` to what was counted before, also by earlier workers."""
    with client.pipeline(transaction=False) as pipe:
        for bucket, count in enumerate(stats.buckets):
            if count:
                pipe.hincrby(CYCLES_STATS, f"bucket:{bucket}", count)
        pipe.hincrbyfloat(CYCLES_STATS, "seconds", stats.seconds)
        pipe.hincrby(CYCLES_STATS, "admitted", stats.admitted)
        pipe.hset(CYCLES_STATS, "waiting", stats.waiting)
        pipe.execute()


def read_cycle_stats(client: redis.Redis) -> CycleStats:
    """All that was counted since Redis was empty."""
    names = [*(f"bucket:{bucket}" for bucket in range(_BEYOND + 1)), "seconds", "admitted", "waiting"]
    *buckets, seconds, admitted, waiting = client.hmget(CYCLES_STATS, names)
    return CycleStats(
        buckets=[int(count or 0) for count in buckets],
        seconds=float(seconds or 0),
        admitted=int(admitted or 0),
        waiting=int(waiting or 0),
    )
