"""How long cycles take and how large they are: counted by the worker, shown by /metrics.

Counters live in Redis, because the process that runs cycles is not the one that is scraped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import redis

from service.domain.claim import ClaimCause
from service.domain.preemption import WasteCause
from service.inventory.keys import CYCLES_STATS
from service.inventory.timings import Timings, timing_fields, timings_from

#: Units that gave way as a whole, or with surplus members; dates of claims that passed.
EVICTED, SHRUNK, REDATED = "evicted", "shrunk", "redated"


def claim_made(cause: ClaimCause) -> str:
    return f"claim:{cause}"


def claim_wasted(cause: WasteCause) -> str:
    """Of a claimant for which others gave way."""
    return f"wasted:{cause}"


_DECISIONS = (
    EVICTED,
    SHRUNK,
    REDATED,
    *(claim_made(cause) for cause in ClaimCause),
    *(claim_wasted(cause) for cause in WasteCause),
)


@dataclass(slots=True, kw_only=True)
class CycleStats:
    """`waiting`: rows that waited after the last counted cycle. `decisions`: by the names above."""

    times: Timings = field(default_factory=Timings)
    admitted: int = 0
    waiting: int = 0
    decisions: Counter[str] = field(default_factory=Counter)

    @property
    def cycles(self) -> int:
        return self.times.total

    def count(
        self, seconds: float, *, admitted: int, waiting: int, decisions: Mapping[str, int] | None = None
    ) -> None:
        """Add one cycle."""
        self.times.add(seconds)
        self.admitted += admitted
        self.waiting = waiting
        self.decisions.update(decisions or {})


def add_cycle_stats(client: redis.Redis, stats: CycleStats) -> None:
    """Add `stats` to what was counted before, also by earlier workers."""
    with client.pipeline(transaction=False) as pipe:
        for name, count in stats.times.increments().items():
            pipe.hincrby(CYCLES_STATS, name, count)
        pipe.hincrbyfloat(CYCLES_STATS, "seconds", stats.times.seconds)
        pipe.hincrby(CYCLES_STATS, "admitted", stats.admitted)
        pipe.hset(CYCLES_STATS, "waiting", stats.waiting)
        for name, count in stats.decisions.items():
            if count:
                pipe.hincrby(CYCLES_STATS, name, count)
        pipe.execute()


def read_cycle_stats(client: redis.Redis) -> CycleStats:
    """All that was counted since Redis was empty."""
    *times, admitted, waiting = client.hmget(CYCLES_STATS, [*timing_fields(), "admitted", "waiting"])
    decided = client.hmget(CYCLES_STATS, _DECISIONS)
    return CycleStats(
        times=timings_from(times),
        admitted=int(admitted or 0),
        waiting=int(waiting or 0),
        decisions=Counter({name: int(n or 0) for name, n in zip(_DECISIONS, decided, strict=True)}),
    )
