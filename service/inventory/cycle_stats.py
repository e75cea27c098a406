"""How long cycles take and how large they are: counted by the worker, shown by /metrics.

Counters live in Redis, because the process that runs cycles is not the one that is scraped.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import redis

from service.inventory.keys import CYCLES_STATS
from service.inventory.timings import Timings, timing_fields, timings_from


@dataclass(slots=True, kw_only=True)
class CycleStats:
    """`waiting`: rows that waited after the last counted cycle."""

    times: Timings = field(default_factory=Timings)
    admitted: int = 0
    waiting: int = 0

    @property
    def cycles(self) -> int:
        return self.times.total

    def count(self, seconds: float, *, admitted: int, waiting: int) -> None:
        """Add one cycle."""
        self.times.add(seconds)
        self.admitted += admitted
        self.waiting = waiting


def add_cycle_stats(client: redis.Redis, stats: CycleStats) -> None:
    """Add `stats` to what was counted before, also by earlier workers."""
    with client.pipeline(transaction=False) as pipe:
        for name, count in stats.times.increments().items():
            pipe.hincrby(CYCLES_STATS, name, count)
        pipe.hincrbyfloat(CYCLES_STATS, "seconds", stats.times.seconds)
        pipe.hincrby(CYCLES_STATS, "admitted", stats.admitted)
        pipe.hset(CYCLES_STATS, "waiting", stats.waiting)
        pipe.execute()


def read_cycle_stats(client: redis.Redis) -> CycleStats:
    """All that was counted since Redis was empty."""
    *times, admitted, waiting = client.hmget(CYCLES_STATS, [*timing_fields(), "admitted", "waiting"])
    return CycleStats(times=timings_from(times), admitted=int(admitted or 0), waiting=int(waiting or 0))
