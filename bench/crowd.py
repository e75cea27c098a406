"""A crowd waits for a large cluster that is mostly full: what a cold and a warm cycle cost, and how that
grows with what waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import psutil
import redis

from bench.crowd_site import GPUS, Crowd, Size
from bench.functions import Functions
from bench.results import Figure, Result, milliseconds, quantile
from bench.servers import both_stores, require_fsync, short_folder
from service.clock import SystemClock
from service.inventory.client import make_client
from service.settings import Settings
from service.store.engine import make_engine
from workers.admission import CycleResult, Leader

_CHANGES = 100
_COLD_SECONDS, _WARM_SECONDS, _MEMORY_GIB = 5.0, 0.15, 1.5
_LIMIT = (
    "What has come free is offered to every shape that waits, and what still finds no place is told why: both"
    " look at the topology domains of its fields."
)
#: Beside the full size: what a warm cycle costs should not follow it.
_SMALLER = (0.1, 0.3)


@dataclass(slots=True)
class Found:
    """Seconds, and bytes of this process."""

    load: float = 0.0
    cold: float = 0.0
    warm: list[float] = field(default_factory=list)
    admitted: int = 0
    memory: int = 0
    functions: Functions = field(default_factory=Functions)


def run(scale: float) -> Result:
    """On servers of its own, one after the other for each size."""
    full = Size()
    cycles = max(3, round(12 * scale))
    found = {}
    for share in (*_SMALLER, 1.0):
        size = replace(full, pending=round(full.pending * share))
        with short_folder() as folder, both_stores(folder) as (database_url, redis_url):
            found[size.pending] = measure(database_url, redis_url, size, cycles=cycles)
    return _result(full, found)


def measure(database_url: str, redis_url: str, size: Size, *, cycles: int, is_durable: bool = True) -> Found:
    """On an empty database and an empty Redis."""
    engine = make_engine(database_url)
    client = make_client(redis_url, timeout_seconds=30.0)
    clock = SystemClock()
    try:
        if is_durable:
            require_fsync(engine)
        crowd = Crowd(engine, clock, size)
        _fill(database_url, client, crowd)
        leader = _leader(database_url, client)
        try:
            return _measure(leader, crowd, cycles)
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


def _measure(leader: Leader, crowd: Crowd, cycles: int) -> Found:
    found = Found()
    crowd.crowd(crowd.size.pending)
    crowd.books.settle()
    # 1. A takeover: everything is loaded, then the first cycle, which knows nothing from before.
    found.load = _timed(leader.hold_lease)
    found.cold = _timed(lambda: _expect_leader(leader.run_cycle()))
    # 2. Changes, and the cycles that they wake.
    for number in range(cycles + 2):
        crowd.change(_CHANGES)
        if number < cycles:
            began_at = time.perf_counter()
            found.admitted += _expect_leader(leader.run_cycle()).admitted
            found.warm.append(time.perf_counter() - began_at)
        else:
            with found.functions.watched():
                leader.run_cycle()
    found.memory = psutil.Process().memory_info().rss
    return found


def _timed(call: Callable[[], object]) -> float:
    began_at = time.perf_counter()
    call()
    return time.perf_counter() - began_at


def _expect_leader(result: CycleResult) -> CycleResult:
    if not result.is_leader:
        raise RuntimeError("somebody else leads")
    return result


def _result(size: Size, found: dict[int, Found]) -> Result:
    whole = found[size.pending]
    figures = [
        milliseconds("cold cycle", whole.cold, at_most=1000 * _COLD_SECONDS),
        milliseconds("warm cycle, median", quantile(whole.warm, 0.5), at_most=1000 * _WARM_SECONDS),
        milliseconds("warm cycle, longest", max(whole.warm)),
        Figure(
            name="memory of the process",
            value=round(whole.memory / 2**30, 2),
            unit="GiB",
            at_most=_MEMORY_GIB,
        ),
        milliseconds("full load at takeover", whole.load),
        Figure(
            name="admitted in a warm cycle",
            value=round(whole.admitted / max(1, len(whole.warm)), 1),
            unit="groups",
        ),
    ]
    growth = [
        milliseconds(f"{kind} cycle, {pending} waiting", seconds)
        for kind in ("warm", "cold")
        for pending, each in found.items()
        for seconds in [quantile(each.warm, 0.5) if kind == "warm" else each.cold]
    ]
    return Result(
        name="crowd",
        title="A crowd waits",
        reading=(
            f"{size.pending} groups of {size.shapes} shapes wait in {size.queues} queues of {size.cohorts}"
            f" cohorts for {size.nodes} nodes with {GPUS} GPUs in three topology levels, of which"
            f" {round(100 * size.held_share)} % are held. Queues lend to each other, and may evict lower"
            " priorities and reclaim. A cold cycle is the first one after a takeover has loaded everything."
            f" Before each warm one {_CHANGES} things changed in as many queues and shapes: half are"
            " submissions, a quarter cancellations, a quarter ends that leave a node to others. Cycles are"
            " timed from the wake-up to the last write in both stores."
        ),
        parameters={
            "nodes": size.nodes,
            "queues": size.queues,
            "cohorts": size.cohorts,
            "shapes": size.shapes,
            "pending": size.pending,
            "changes": _CHANGES,
        },
        figures=figures,
        parts=[*growth, *whole.functions.parts("warm")],
        limit=_LIMIT,
    )
