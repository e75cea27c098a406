"""What retention has dropped (K1): counted by the ticker, shown by /metrics."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import redis

from service.inventory.keys import RETENTION_STATS


@dataclass(slots=True, kw_only=True)
class RetentionStats:
    """`at`: the start of the last run, None before the first. `is_behind`: it ended before everything
    that is old enough was looked at. The rest are sums."""

    runs: int = 0
    groups: int = 0
    keys: int = 0
    events: int = 0
    seconds: float = 0.0
    at: datetime | None = None
    is_behind: bool = False


def add_retention_stats(client: redis.Redis, stats: RetentionStats) -> None:
    """Add one run to those before."""
    with client.pipeline(transaction=False) as pipe:
        for name in ("runs", "groups", "keys", "events"):
            pipe.hincrby(RETENTION_STATS, name, getattr(stats, name))
        pipe.hincrbyfloat(RETENTION_STATS, "seconds", stats.seconds)
        if stats.at is not None:
            pipe.hset(RETENTION_STATS, "at", stats.at.timestamp())
        pipe.hset(RETENTION_STATS, "is_behind", int(stats.is_behind))
        pipe.execute()


def read_retention_stats(client: redis.Redis) -> RetentionStats:
    """All that was counted since Redis was empty."""
    names = ["runs", "groups", "keys", "events", "seconds", "at", "is_behind"]
    runs, groups, keys, events, seconds, at, is_behind = client.hmget(RETENTION_STATS, names)
    return RetentionStats(
        runs=int(runs or 0),
        groups=int(groups or 0),
        keys=int(keys or 0),
        events=int(events or 0),
        seconds=float(seconds or 0),
        at=datetime.fromtimestamp(float(at), UTC) if at else None,
        is_behind=bool(int(is_behind or 0)),
    )
