"""How cycles of a leader over a crowd are timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import psutil
import redis

from bench.crowd.result import CHANGES, Found
from bench.crowd.site import Crowd, Size
from bench.servers import require_fsync
from service.clock import SystemClock
from service.inventory.client import make_client
from service.settings import Settings
from service.store.engine import make_engine
from workers.admission import CycleResult, Leader

#: Besides, to see how the cost grows.
_OTHER_CHANGES = (10, 1000)
#: Cycles that took so long together say enough.
_ENOUGH_SECONDS = 60.0


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
        fill_nodes(database_url, client, crowd)
        crowd.crowd(size.pending)
        crowd.books.settle()
        leader = make_leader(database_url, client)
        try:
            return _measure(leader, crowd, cycles, others)
        finally:
            leader.close()
    finally:
        client.close()
        engine.dispose()


def make_leader(database_url: str, client: redis.Redis) -> Leader:
    """One that keeps its lease, as the worker's does."""
    return Leader(
        database_url, client, clock=SystemClock(), settings=Settings(), name="bench", keeps_lease=True
    )


def fill_nodes(database_url: str, client: redis.Redis, crowd: Crowd) -> None:
    """By a leader of its own, which forgets everything before anything is measured."""
    expected = crowd.fill()
    leader = make_leader(database_url, client)
    try:
        filled = leader.run_cycle()
    finally:
        leader.close()
    if (filled.admitted, filled.waiting) != (expected, 0):
        raise RuntimeError(f"the cluster was not filled as planned: {filled}")


def _measure(leader: Leader, crowd: Crowd, cycles: int, others: Sequence[int]) -> Found:
    found = Found()
    # 1. A takeover.
    take_over(leader, found)
    # 2. Changes, and the cycles that they wake.
    measure_warm(leader, crowd, found, changes=CHANGES, cycles=cycles)
    found.memory = psutil.Process().memory_info().rss
    # 3. In which functions it is.
    for _ in range(3):
        crowd.change(CHANGES)
        with found.functions.watched():
            leader.run_cycle()
    # 4. Fewer and more changes, which leave another crowd behind.
    for changes in others:
        measure_warm(leader, crowd, found, changes=changes, cycles=max(3, cycles // 2))
    return found


def take_over(leader: Leader, found: Found) -> None:
    """Everything is loaded, then the first cycle, which knows nothing from before."""
    found.load = _timed(leader.hold_lease)
    found.cold = _timed(lambda: _expect_leader(leader.run_cycle()))


def measure_warm(leader: Leader, crowd: Crowd, found: Found, *, changes: int, cycles: int) -> None:
    """Cycles, each after so many changes."""
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
