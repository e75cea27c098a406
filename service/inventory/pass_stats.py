"""How long the passes of dispatchers take: counted by each for its pool, shown by /metrics."""

from __future__ import annotations

from collections.abc import Iterable

import redis

from service.inventory.keys import pass_stats
from service.inventory.timings import Timings, timing_fields, timings_from


def add_pass_stats(client: redis.Redis, pool: str, *, times: Timings) -> None:
    """Add `times` to what was counted before for the pool, also by earlier dispatchers."""
    with client.pipeline(transaction=False) as pipe:
        for name, count in times.increments().items():
            pipe.hincrby(pass_stats(pool), name, count)
        pipe.hincrbyfloat(pass_stats(pool), "seconds", times.seconds)
        pipe.execute()


def read_pass_stats(client: redis.Redis, pools: Iterable[str]) -> dict[str, Timings]:
    """All that was counted since Redis was empty, by pool."""
    names = list(pools)
    with client.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.hmget(pass_stats(name), timing_fields())
        return {name: timings_from(values) for name, values in zip(names, pipe.execute(), strict=True)}
