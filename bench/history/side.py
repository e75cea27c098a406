"""One of two databases that are measured in turns: rounds of groups from submission to end, step by step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from bench.functions import Functions
from bench.results import quantile
from bench.site import Books
from service.clock import SystemClock
from service.domain.group import GroupSpec, Role
from service.domain.resources import Resources
from service.inventory.client import make_client
from service.operations.commit import Committed
from service.settings import Settings
from service.store.engine import make_engine
from workers.admission import Leader
from workers.dispatcher import Dispatcher
from workers.launchers.local.nodes import parse_nodes
from workers.launchers.simulated import SimulatedLauncher
from workers.launchers.simulated_cluster import SimulatedCluster

NODES, GPUS = 25, 8
#: A plan of psycopg's prepared statements is of the first of these rounds; they are not counted.
WARM_UP_ROUNDS = 3
HOT = ("submit", "feed", "commit", "observe")


@dataclass(slots=True)
class Times:
    """Seconds by step, one entry for each round."""

    seconds: dict[str, list[float]] = field(default_factory=dict)

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        began_at = time.perf_counter()
        yield
        self.seconds.setdefault(name, []).append(time.perf_counter() - began_at)

    def counted(self, name: str) -> list[float]:
        return self.seconds[name][WARM_UP_ROUNDS:]

    def median(self, name: str) -> float:
        return quantile(self.counted(name), 0.5)


@dataclass(slots=True)
class Looks:
    """The functions of each step, added up over rounds."""

    functions: dict[str, Functions] = field(default_factory=lambda: {name: Functions() for name in HOT})

    def of(self, name: str) -> AbstractContextManager[None]:
        return self.functions[name].watched()


class Steps(Protocol):
    """What goes around each step of a round."""

    def of(self, name: str) -> AbstractContextManager[None]: ...


class Side:
    """One database with all that works on it: a leader, and a dispatcher with a simulated cluster of
    `count` nodes."""

    def __init__(
        self,
        database_url: str,
        redis_url: str,
        *,
        folder: Path,
        close: ExitStack,
        times: Steps | None = None,
        count: int = NODES,
    ) -> None:
        self.engine = make_engine(database_url)
        close.callback(self.engine.dispose)
        client = make_client(redis_url, timeout_seconds=10.0)
        close.callback(client.close)
        clock = self._clock = SystemClock()
        nodes = f"{count}x{GPUS}xH100-80GB"
        self.books = Books(self.engine, clock, nodes=nodes, queues=20)
        settings = Settings(data=folder, pool="bench", launcher="simulated")
        self._leader = Leader(database_url, client, clock=clock, settings=settings, name="bench")
        close.callback(self._leader.close)
        self._cluster = SimulatedCluster({"bench": parse_nodes(nodes)}, clock, keeps_records=False)
        self._dispatcher = Dispatcher(
            self.engine,
            SimulatedLauncher(self._cluster, "bench"),
            pool_name="bench",
            clock=clock,
            settings=settings,
            ring_leader=lambda: None,
        )
        close.callback(self._dispatcher.close)
        self.times: Steps = times or Times()
        self._specs = [_spec(self.books.queues[i % 20]) for i in range(count * GPUS)]
        # A group of the shape that the past is of.
        self.books.cancel(self.books.submit(self._specs[:1]))

    def round(self, singles: int) -> None:
        """One full cluster of groups from submission to end, each step with its time."""
        times = self.times
        # 1. Submit: one by one, and the rest as a batch.
        with times.of("submit"):
            for spec in self._specs[:singles]:
                self.books.submit([spec])
            self.books.submit(self._specs[singles:])
        # 2. Read what changed: the ends of the round before, too.
        self._leader.hold_lease()
        term = self._leader.term
        if term is None:
            raise RuntimeError("the leader has no term")
        with times.of("feed"):
            term.read()
        term.settle()
        # 3. Decide, reserve, commit.
        plan = term.plan(self._clock.now())
        term.reserve(plan.admissions)
        with times.of("commit"):
            outcome = term.commit(plan, self._clock.now())
        if not isinstance(outcome, Committed) or len(outcome.won) != len(self._specs):
            raise RuntimeError("the cycle did not admit everything")
        term.publish(plan, self._clock.now())
        # 4. Claim, launch, watch; then all ends are recorded.
        with times.of("observe"):
            self._pass_until_all_is_done()
            self._cluster.end("bench")
            self._pass_until_all_is_done()

    def _pass_until_all_is_done(self) -> None:
        """On a busy machine a pass ends before it has done all."""
        while self._dispatcher.pass_once():
            pass


def _spec(queue: str) -> GroupSpec:
    requests = Resources(gpus=1, cpus_milli=1000, memory_mib=1024)
    return GroupSpec(
        name="bench",
        queue=queue,
        roles=(Role(name="worker", count=1, requests=requests, command=("simulate",)),),
    )
