"""The admission cycle of a leader: with nothing to admit, and admitting a cluster full of groups."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import redis

from bench.functions import Functions
from bench.results import Figure, Result, milliseconds, quantile
from bench.servers import both_stores, require_fsync, short_folder
from bench.site import Books
from service.clock import SystemClock
from service.domain.group import GroupSpec, Role
from service.domain.resources import Resources
from service.inventory.client import make_client
from service.operations.commit import Committed
from service.operations.term import Term
from service.settings import Settings
from service.store.engine import make_engine
from workers.admission import Leader

_GPUS = 8
#: Quiet cycles that are watched for where their time goes.
_WATCHED_CYCLES = 5
#: Members and GPUs of each: every group takes as much as one node has.
_SPLITS = ((1, 8), (2, 4), (4, 2), (8, 1))

_LIMIT = (
    "An admission is placed in Python, where its node leaves and enters the sorted buckets of each field that"
    " it is in, and its rows are written by one statement, a row for each device; a quiet cycle mostly reads,"
    " and writes the order of the queues that changed."
)


@dataclass(frozen=True, kw_only=True)
class Size:
    """`changes` before a cycle that admits nothing: half are submissions, half cancellations."""

    nodes: int = 1000
    queues: int = 20
    shapes: int = 100
    pending: int = 10_000
    changes: int = 100
    quiet_cycles: int = 20
    full_cycles: int = 4


@dataclass(slots=True)
class _Times:
    """Seconds by step, one entry for each cycle."""

    whole: list[float] = field(default_factory=list)
    steps: dict[str, list[float]] = field(default_factory=dict)

    def step(self, name: str, call: Callable[[], object]) -> None:
        began_at = time.perf_counter()
        call()
        self.steps.setdefault(name, []).append(time.perf_counter() - began_at)


def run(scale: float) -> Result:
    """On servers of its own."""
    size = Size(quiet_cycles=max(2, round(20 * scale)), full_cycles=max(2, round(4 * scale)))
    with short_folder() as folder, both_stores(folder) as (database_url, redis_url):
        return measure(database_url, redis_url, size)


def measure(database_url: str, redis_url: str, size: Size, *, is_durable: bool = True) -> Result:
    """On an empty database and an empty Redis."""
    engine = make_engine(database_url)
    client = make_client(redis_url, timeout_seconds=10.0)
    clock = SystemClock()
    leader = Leader(database_url, client, clock=clock, settings=Settings(), name="bench", keeps_lease=True)
    try:
        if is_durable:
            require_fsync(engine)
        books = Books(engine, clock, nodes=f"{size.nodes}x{_GPUS}xH100-80GB", queues=size.queues)
        return _measure(books, leader, client, size)
    finally:
        leader.close()
        client.close()
        engine.dispose()


def _measure(books: Books, leader: Leader, client: redis.Redis, size: Size) -> Result:
    made = 0

    def submit(count: int) -> None:
        nonlocal made
        books.submit([group_spec(made + index, books.queues, size.shapes) for index in range(count)])
        made += count

    # 1. A full cluster, and `pending` groups behind it.
    submit(size.nodes + size.pending)
    books.settle()
    filled = leader.run_cycle()
    if (filled.admitted, filled.waiting) != (size.nodes, size.pending):
        raise RuntimeError(f"the cluster was not filled as planned: {filled}")
    # 2. Changes that admit nothing.
    quiet, chosen = _Times(), random.Random(1)
    for number in range(size.quiet_cycles):
        books.cancel(chosen.sample(books.waiting(), size.changes // 2))
        submit(size.changes - size.changes // 2)
        _cycle(leader, quiet, is_whole=number % 2 == 0, admits=0)
    # 3. The whole cluster changes hands.
    full = _Times()
    for number in range(size.full_cycles):
        books.end_all()
        submit(size.nodes)
        books.settle()
        _cycle(leader, full, is_whole=number % 2 == 0, admits=size.nodes)
    # 4. Once more of each, watched: in which functions the time goes.
    functions = {"quiet": Functions(), "full": Functions()}
    for _ in range(_WATCHED_CYCLES):
        books.cancel(chosen.sample(books.waiting(), size.changes // 2))
        submit(size.changes - size.changes // 2)
        with functions["quiet"].watched():
            leader.run_cycle()
    books.end_all()
    submit(size.nodes)
    with functions["full"].watched():
        leader.run_cycle()
    watched = [part for kind, each in functions.items() for part in each.parts(kind)]
    return _result(size, quiet, full, client, watched)


def _cycle(leader: Leader, times: _Times, *, is_whole: bool, admits: int) -> None:
    """As the worker runs it, or step by step."""
    if is_whole:
        began_at = time.perf_counter()
        admitted = leader.run_cycle().admitted
        times.whole.append(time.perf_counter() - began_at)
    else:
        leader.hold_lease()
        assert leader.term is not None
        admitted = _step_by_step(leader.term, times)
    if admitted != admits:
        raise RuntimeError(f"a cycle admitted {admitted} groups instead of {admits}")


def _step_by_step(term: Term, times: _Times) -> int:
    clock = SystemClock()
    times.step("read", term.read)
    began_at = time.perf_counter()
    plan = term.plan(clock.now())
    times.steps.setdefault("decide", []).append(time.perf_counter() - began_at)
    times.step("release", term.settle)
    if plan.admissions:
        times.step("reserve", lambda: term.reserve(plan.admissions))
        began_at = time.perf_counter()
        outcome = term.commit(plan, clock.now())
        times.steps.setdefault("commit", []).append(time.perf_counter() - began_at)
        if not isinstance(outcome, Committed) or outcome.lost:
            raise RuntimeError("the cycle's transaction did not win everything")
    times.step("publish", lambda: term.publish(plan, clock.now()))
    return len(plan.admissions)


def group_spec(number: int, queues: list[str], shapes: int) -> GroupSpec:
    """Every shape in every queue."""
    shape = number % shapes
    members, gpus = _SPLITS[shape % len(_SPLITS)]
    requests = Resources(gpus=gpus, cpus_milli=1000 * gpus, memory_mib=1024 * gpus + shape // len(_SPLITS))
    return GroupSpec(
        name="bench",
        queue=queues[number // shapes % len(queues)],
        roles=(Role(name="worker", count=members, requests=requests, command=("train",)),),
    )


def _result(size: Size, quiet: _Times, full: _Times, client: redis.Redis, watched: list[Figure]) -> Result:
    limits = _limits(size)
    return Result(
        name="cycle",
        title="The admission cycle",
        reading=(
            f"{size.pending} groups of {size.shapes} shapes wait in {size.queues} queues for {size.nodes}"
            f" nodes with {_GPUS} GPUs, all of which are held. Whole cycles are timed from the wake-up to"
            " the last write in both stores (read what changed, decide, release, reserve, commit, publish),"
            f" and every second one is run step by step for the parts. Before a quiet cycle {size.changes}"
            " groups were submitted or cancelled; before a full one everything that ran has ended, so it also"
            " releases as much as it admits. Every group asks for eight GPUs in one of four splits, so that"
            " the number of admissions is exact. Shares by function are of further cycles, and of what each"
            " spends itself."
        ),
        parameters={
            "nodes": size.nodes,
            "queues": size.queues,
            "shapes": size.shapes,
            "pending": size.pending,
            "changes": size.changes,
            "redis_version": _redis_version(client),
        },
        figures=[
            milliseconds("quiet cycle, median", quantile(quiet.whole, 0.5), at_most=limits[0]),
            milliseconds("quiet cycle, longest", max(quiet.whole)),
            milliseconds("decision of a quiet cycle, median", quantile(quiet.steps["decide"], 0.5)),
            milliseconds(f"admitting {size.nodes}, median", quantile(full.whole, 0.5), at_most=limits[1]),
            milliseconds(f"admitting {size.nodes}, longest", max(full.whole)),
            milliseconds(f"decision for {size.nodes}, median", quantile(full.steps["decide"], 0.5)),
        ],
        parts=[*_parts("quiet", quiet), *_parts("full", full), *watched],
        limit=_LIMIT,
    )


def _limits(size: Size) -> tuple[float | None, float | None]:
    """Milliseconds; they are meant for the full size."""
    return (30.0, 500.0) if size.pending >= Size.pending and size.nodes >= Size.nodes else (None, None)


def _parts(kind: str, times: _Times) -> list[Figure]:
    return [milliseconds(f"{kind}: {name}", quantile(values, 0.5)) for name, values in times.steps.items()]


def _redis_version(client: redis.Redis) -> str:
    return str(client.info("server").get("redis_version", "unknown"))
