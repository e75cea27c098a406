"""Gauges of whole cycles, and of submits without HTTP, on real stores: the CPU of this process and of both
stores, which are children of it."""

from __future__ import annotations

import os
from contextlib import ExitStack

from bench.check.gauge import Gauge
from bench.check.yardsticks import StoreWork
from bench.cpu import cpu_of
from bench.crowd.measure import make_leader
from bench.cycle import group_spec
from bench.servers import require_fsync
from bench.site import Books
from service.clock import SystemClock
from service.inventory.client import make_client
from service.store.engine import make_engine
from workers.admission import CycleResult, Leader

_NODES, _QUEUES, _SHAPES, _PENDING = 200, 20, 100, 2_000
_BATCH, _CHANGED = 500, 30
_ROUNDS = 11


class _Site:
    """A full cluster, groups that wait for it, and a leader."""

    def __init__(self, books: Books, leader: Leader) -> None:
        self._books, self._leader, self._made = books, leader, 0
        self.submit(_NODES + _PENDING)
        self.cycle(admits=_NODES)

    def submit(self, count: int) -> float:
        specs = [group_spec(self._made + index, self._books.queues, _SHAPES) for index in range(count)]
        self._made += count
        return cpu_of(lambda: self._books.submit(specs), [os.getpid()])

    def cycle(self, *, admits: int) -> float:
        results: list[CycleResult] = []
        seconds = cpu_of(lambda: results.append(self._leader.run_cycle()), [os.getpid()])
        if results[0].admitted != admits:
            raise RuntimeError(f"a cycle admitted {results[0].admitted} groups instead of {admits}")
        return seconds

    def quiet_cycle(self) -> float:
        """After submissions and as many cancellations."""
        self._books.cancel(self._books.waiting()[:_CHANGED])
        self.submit(_CHANGED)
        return self.cycle(admits=0)

    def full_cycle(self) -> float:
        """The whole cluster changes hands."""
        self._books.end_all()
        self.submit(_NODES)
        return self.cycle(admits=_NODES)

    def batch(self) -> float:
        """A batch, which a cycle of its own has read before others are timed."""
        seconds = self.submit(_BATCH)
        self.cycle(admits=0)
        return seconds


def cycle_gauges(
    database_url: str, redis_url: str, close: ExitStack, *, is_durable: bool = True
) -> list[Gauge]:
    """On an empty database and an empty Redis."""
    engine = make_engine(database_url)
    close.callback(engine.dispose)
    client = make_client(redis_url, timeout_seconds=10.0)
    close.callback(client.close)
    if is_durable:
        require_fsync(engine)
    books = Books(engine, SystemClock(), nodes=f"{_NODES}x8xH100-80GB", queues=_QUEUES)
    leader = make_leader(database_url, client)
    close.callback(leader.close)
    site, work = _Site(books, leader), StoreWork(engine, client)
    books.settle()
    return [
        Gauge(
            name="quiet cycle",
            product=site.quiet_cycle,
            yardstick=lambda: work.seconds(items=1_000, commits=1, rows=100, trips=1),
            rounds=2 * _ROUNDS,
        ),
        Gauge(
            name=f"cycle that admits {_NODES}",
            product=site.full_cycle,
            yardstick=lambda: work.seconds(items=12_000, commits=2, rows=1_000, trips=4),
            rounds=_ROUNDS,
        ),
        Gauge(
            name=f"batch of {_BATCH}",
            product=site.batch,
            yardstick=lambda: work.seconds(items=4_000, commits=1, rows=1_500, trips=0),
            rounds=_ROUNDS,
        ),
    ]
