"""A crowd waits for a large cluster that is mostly full: what a cold and a warm cycle cost, and how that
grows with what waits and with what changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import psutil
import redis

from bench.crowd.result import CHANGES, Found, result_of
from bench.crowd.site import Crowd, Size
from bench.results import Result
from bench.servers import both_stores, require_fsync, short_folder
from service.clock import SystemClock
from service.inventory.client import make_client
from service.settings import Settings
from service.store.engine import make_engine
from workers.admission import CycleResult, Leader

#: Besides, to see how the cost grows.
_OTHER_CHANGES = (10, 1000)
#: Beside the full size: what a warm cycle costs should not follow it.
_SMALLER = (0.1, 0.3)
#: Cycles that took so long together say enough.
_ENOUGH_SECONDS = 60.0


def run(scale: float) -> Result:
    """On servers of its own, one after the other for each size; the largest first, in a process that has not
    had others."""
    full = Size()
    cycles = max(3, round(12 * scale))
    found = {}
    for share in (1.0, *reversed(_SMALLER)):
        size = replace(full, pending=round(full.pending * share))
        with short_folder() as folder, both_stores(folder) as (database_url, redis_url):
            found[size.pending] = measure(database_url, redis_url, size, cycles=cycles)
    return result_of(full, dict(sorted(found.items())))


def measure(
    database_url: str,
    redis_url: str,
    size: Size,
    *,
    cycles: int,
    others: Sequence[int] = _OTHER_CHANGES,
    is_durable: bool = True,
) -> Found:
    """On an empty database and an empty Redis. `others`: how much else changes before cycles, besides 100."""
    engine = make_engine(database_url)
    client = make_client(redis_url, timeout_seconds=30.0)
    clock = SystemClock()
    try:
        if is_durable:
            require_fsync(engine)
        crowd = Crowd(engine, clock, size)
        _fill(database_url, client, crowd)
        crowd.crowd(size.pending)
        crowd.books.settle()
        leader = _leader(database_url, client)
        try:
            return _measure(leader, crowd, cycles, others)
        finally:
            leader.close()
    finally:
        client.close()
        engine.dispose()


def _leader(database_url: str, client: redis.Redis) -> Leader:
    return Leader(
        database_url, client, clock=SystemClock(), settings=Settings(), name="bench", keeps_lease=True
    )


def _fill(database_url: str, client: redis.Redis, crowd: Crowd) -> None:
    """By a leader of its own, which forgets everything before anything is measured."""
    expected = crowd.fill()
    leader = _leader(database_url, client)
    try:
        filled = leader.run_cycle()
    finally:
        leader.close()
    if (filled.admitted, filled.waiting) != (expected, 0):
        raise RuntimeError(f"the cluster was not filled as planned: {filled}")


def _measure(leader: Leader, crowd: Crowd, cycles: int, others: Sequence[int]) -> Found:
    found = Found()
    # 1. A takeover: everything is loaded, then the first cycle, which knows nothing from before.
    found.load = _timed(leader.hold_lease)
    found.cold = _timed(lambda: _expect_leader(leader.run_cycle()))
    # 2. Changes, and the cycles that they wake.
    _measure_warm(leader, crowd, found, changes=CHANGES, cycles=cycles)
    found.memory = psutil.Process().memory_info().rss
    # 3. In which functions it is.
    for _ in range(3):
        crowd.change(CHANGES)
        with found.functions.watched():
            leader.run_cycle()
    # 4. Fewer and more changes, which leave another crowd behind.
    for changes in others:
        _measure_warm(leader, crowd, found, changes=changes, cycles=max(3, cycles // 2))
    return found


def _measure_warm(leader: Leader, crowd: Crowd, found: Found, *, changes: int, cycles: int) -> None:
    seconds = found.warm.setdefault(changes, [])
    for _ in range(cycles):
        crowd.change(changes)
        began_at = time.perf_counter()
        result = _expect_leader(leader.run_cycle())
        seconds.append(time.perf_counter() - began_at)
        found.admitted += result.admitted if changes == CHANGES else 0
        if sum(seconds) > _ENOUGH_SECONDS:
            return


def _timed(call: Callable[[], object]) -> float:
    began_at = time.perf_counter()
    call()
    return time.perf_counter() - began_at


def _expect_leader(result: CycleResult) -> CycleResult:
    if not result.is_leader:
        raise RuntimeError("somebody else leads")
    return result
