"""The hot statements over a database with a long past, beside a fresh one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import text

from bench.past import EVENTS, add_past, settle
from bench.results import Figure, Result, milliseconds, quantile
from bench.servers import both_stores, require_fsync, short_folder
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

_NODES, _GPUS = 25, 8
#: What autovacuum would have done is done so often.
_ROUNDS_TO_SETTLE = 10
#: A plan of psycopg's prepared statements is of the first of these rounds; they are not counted.
_WARM_UP_ROUNDS = 3
_LIMIT = 1.5
HOT = ("submit", "feed", "commit", "observe")


@dataclass(frozen=True, kw_only=True)
class Size:
    """`ended` groups with five events each in the past; so many `rounds` of a full cluster of groups."""

    ended: int = 1_000_000
    rounds: int = 40
    singles: int = 20


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
        return self.seconds[name][_WARM_UP_ROUNDS:]

    def median(self, name: str) -> float:
        return quantile(self.counted(name), 0.5)


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
        times: Times | None = None,
        count: int = _NODES,
    ) -> None:
        self.engine = make_engine(database_url)
        close.callback(self.engine.dispose)
        client = make_client(redis_url, timeout_seconds=10.0)
        close.callback(client.close)
        clock = self._clock = SystemClock()
        nodes = f"{count}x{_GPUS}xH100-80GB"
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
        self.times = times or Times()
        self._specs = [_spec(self.books.queues[i % 20]) for i in range(count * _GPUS)]
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


def run(scale: float) -> Result:
    """On servers of its own."""
    size = Size(ended=max(1_000, round(1_000_000 * scale)), rounds=max(10, round(40 * scale)))
    with short_folder() as folder, both_stores(folder) as (database_url, redis_url):
        return measure(database_url, redis_url, folder, size=size)


def measure(
    database_url: str, redis_url: str, folder: Path, *, size: Size, is_durable: bool = True
) -> Result:
    """On a server with an empty database, beside which it makes another, and an empty Redis."""
    with ExitStack() as close:
        other_url = close.enter_context(_another_database(database_url))
        fresh = Side(database_url, redis_url, folder=folder, close=close)
        filled = Side(other_url, f"{redis_url.partition('?')[0]}?db=1", folder=folder, close=close)
        if is_durable:
            require_fsync(fresh.engine)
        began_at = time.monotonic()
        add_past(filled.engine, size.ended)
        filled_seconds = time.monotonic() - began_at
        for number in range(size.rounds + _WARM_UP_ROUNDS):
            if number % _ROUNDS_TO_SETTLE == 0:
                settle(fresh.engine)
                settle(filled.engine)
            # In turns, so that what else the machine does falls on both.
            for side in (fresh, filled) if number % 2 else (filled, fresh):
                side.round(size.singles)
    return _result(size, fresh.times, filled.times, filled_seconds)


@contextmanager
def _another_database(database_url: str) -> Iterator[str]:
    """The URL of a database of its own on the same server, gone afterwards."""
    engine = make_engine(database_url)
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            conn.execute(text("CREATE DATABASE bench_filled TEMPLATE template0"))
            yield engine.url.set(database="bench_filled").render_as_string(hide_password=False)
            conn.execute(text("DROP DATABASE bench_filled WITH (FORCE)"))
    finally:
        engine.dispose()


def _spec(queue: str) -> GroupSpec:
    requests = Resources(gpus=1, cpus_milli=1000, memory_mib=1024)
    return GroupSpec(
        name="bench",
        queue=queue,
        roles=(Role(name="worker", count=1, requests=requests, command=("simulate",)),),
    )


def _ratio(longs: Sequence[float], shorts: Sequence[float]) -> float:
    """The median of the ratios of rounds that followed each other: what else the machine did was the same."""
    return quantile((one / other for one, other in zip(longs, shorts, strict=True)), 0.5)


def _result(size: Size, fresh: Times, filled: Times, filled_seconds: float) -> Result:
    each = _NODES * _GPUS
    return Result(
        name="history",
        title="A long past",
        reading=(
            f"Two databases on one server: a fresh one, and one with {size.ended} ended groups and"
            f" {EVENTS * size.ended} events. In each round both see {each} groups from submission to end, in"
            f" turns: {size.singles} are submitted one by one and the rest as a batch, the leader reads what"
            " changed (feed), admits all of them (commit), and the dispatcher claims, launches and records"
            " their start and their end (observe). The ratio is the median of the ratios of rounds that"
            " followed each other. Both are vacuumed and analyzed now and then, as autovacuum would."
        ),
        parameters={
            "ended_groups": size.ended,
            "events": EVENTS * size.ended,
            "rounds": size.rounds,
            "groups_per_round": each,
            "seconds_to_fill": round(filled_seconds, 1),
        },
        figures=[
            Figure(
                name=f"{name}, long past to fresh",
                value=round(_ratio(filled.counted(name), fresh.counted(name)), 2),
                unit="ratio",
                at_most=_LIMIT,
            )
            for name in HOT
        ],
        parts=[
            milliseconds(f"{name}, {label}", times.median(name))
            for name in HOT
            for label, times in (("fresh", fresh), ("long past", filled))
        ],
    )
