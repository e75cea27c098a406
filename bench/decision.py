"""The decision alone, without stores, at the size of a peer's performance suite: what a cycle costs by how
many rows changed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from bench.functions import Functions
from bench.results import Figure, Result, milliseconds, quantile
from service.admission.cycle import plan_cycle
from service.admission.plan import Plan
from service.admission.resident import World
from service.admission.world import (
    Changes,
    Cohort,
    Configuration,
    Node,
    PendingUnit,
    Pool,
    Queue,
)
from service.domain.queue import PreemptWithin, QueuePolicy, Quota, Reclaim
from service.domain.resources import CPUS, Resources
from service.domain.shape import RoleShape, Scheduling, Shape
from service.domain.unit import unit_id
from workers.collector import spare_collector

_START = datetime(2026, 1, 1, tzinfo=UTC)
_FIXED_MS, _MICROSECONDS_PER_ROW = 20.0, 20.0
#: CPUs, priority and how many of 50, of the peer's three classes.
_CLASSES = ((1, 50, 35), (5, 100, 11), (20, 200, 4))
_NODE_CPUS = 120


@dataclass(frozen=True, kw_only=True)
class Size:
    """As the peer's largest suite: every queue has 20 CPUs of its own and may borrow 100."""

    queues: int = 1000
    cohorts: int = 10
    nodes: int = 334
    pending: int = 40_000
    #: Rows that end, and that are submitted, before a cycle.
    steps: tuple[int, ...] = (0, 10, 100, 200, 1000)
    cycles: int = 9


@dataclass(slots=True)
class Site:
    """A World, and what to change in it."""

    world: World
    size: Size
    chosen: random.Random = field(default_factory=lambda: random.Random(1))
    now: datetime = _START
    submitted: int = 0
    timer: Callable[[], float] = time.perf_counter

    def submit(self, count: int) -> Changes:
        shapes = {index + 1: _shape(cpus) for index, (cpus, _, _) in enumerate(_CLASSES)}
        rows = [_row(self.submitted + number, self.size.queues, self.now) for number in range(count)]
        self.submitted += count
        return Changes(shapes=shapes, pending={row.id: row for row in rows})

    def end(self, count: int) -> Changes:
        running = sorted(self.world.running)
        return Changes(gone=frozenset(self.chosen.sample(running, min(count, len(running)))))

    def plan(self) -> tuple[Plan, float]:
        """As the leader does: what the plan says comes to be. Only the decision is timed."""
        began_at = self.timer()
        plan = plan_cycle(self.world, self.now)
        seconds = self.timer() - began_at
        self.world.admit(plan.admissions, self.now)
        self.world.keep_claims(plan.claims_made, ended=plan.claims_ended)
        self.world.keep_pauses(plan.pauses_made, dropped=plan.pauses_dropped)
        return plan, seconds


def run(scale: float) -> Result:
    """In this process alone."""
    return measure(replace(Size(), cycles=max(3, round(9 * scale))))


def measure(size: Size) -> Result:
    """Fill the cluster, let `pending` rows wait, then change some rows before each cycle."""
    site = full_site(size)
    # As the leader does when it has loaded its World.
    spare_collector()
    times: dict[int, list[tuple[int, float]]] = {}
    functions = Functions()
    for changed in size.steps:
        for _ in range(size.cycles):
            times.setdefault(changed, []).append(timed_cycle(site, changed))
    with functions.watched():
        timed_cycle(site, size.steps[-1])
    return _result(size, times, functions)


def full_site(size: Size) -> Site:
    """A cluster that is full, with about `pending` rows behind it."""
    site = Site(World.empty(), size)
    site.world.apply(Changes(configuration=_configuration(size)))
    site.world.apply(site.submit(size.pending + size.nodes * _NODE_CPUS // 3))
    for _ in range(3):
        site.plan()
    return site


def timed_cycle(site: Site, changed: int) -> tuple[int, float]:
    """Half of the changes are ends, half submissions. Returns how many rows have changed then, with those
    that were admitted, and the seconds of the decision."""
    site.now += timedelta(milliseconds=20)
    site.world.apply(site.end(changed // 2))
    site.world.apply(site.submit(changed - changed // 2))
    plan, seconds = site.plan()
    return changed + len(plan.admissions), seconds


def _configuration(size: Size) -> Configuration:
    policy = QueuePolicy(preempt_within=PreemptWithin.LOWER_PRIORITY, reclaim=Reclaim.ANY)
    quota = Quota(nominal={CPUS: 20_000}, borrowing={CPUS: 100_000})
    return Configuration(
        version=1,
        cohorts={number: Cohort(id=number, name=f"c{number}") for number in range(1, size.cohorts + 1)},
        queues={
            number: Queue(
                id=number,
                name=f"q{number}",
                cohort_id=number % size.cohorts + 1,
                quota=quota,
                policy=policy,
            )
            for number in range(1, size.queues + 1)
        },
        pools={1: Pool(id=1, name="p1", levels=("host",))},
        nodes={
            number: Node(
                id=number,
                name=f"n{number}",
                pool_id=1,
                cpus_milli=1000 * _NODE_CPUS,
                memory_mib=1 << 20,
                labels={"host": f"n{number}"},
            )
            for number in range(1, size.nodes + 1)
        },
    )


def _shape(cpus: int) -> Shape:
    requests = Resources(cpus_milli=1000 * cpus, memory_mib=1)
    role = RoleShape(name="worker", count=1, min_count=1, requests=requests)
    return Shape(scheduling=Scheduling.GANG, roles=(role,))


def _row(number: int, queues: int, now: datetime) -> PendingUnit:
    group_id, kind = number + 1, _kind(number // queues)
    return PendingUnit(
        id=unit_id(group_id, 0),
        group_id=group_id,
        public_id=str(group_id),
        queue_id=number % queues + 1,
        shape_id=kind + 1,
        priority=_CLASSES[kind][1],
        submitted_at=now,
        first_index=0,
        last_index=0,
        attempt=1,
        version=1,
    )


def _kind(turn: int) -> int:
    """Which class: of 50 in a queue 35 are small, 11 medium and 4 large, mixed."""
    place = turn * 17 % 50
    return 0 if place < _CLASSES[0][2] else 1 if place < _CLASSES[0][2] + _CLASSES[1][2] else 2


def _result(size: Size, times: dict[int, list[tuple[int, float]]], functions: Functions) -> Result:
    figures: list[Figure] = []
    rows_of: list[Figure] = []
    for changed, cycles in times.items():
        rows = round(sum(rows for rows, _ in cycles) / len(cycles))
        name = f"{changed} changes before it: rows changed, with those admitted"
        rows_of.append(Figure(name=name, value=rows, unit="rows"))
        bound = _FIXED_MS + _MICROSECONDS_PER_ROW * rows / 1000
        median = quantile((seconds for _, seconds in cycles), 0.5)
        figures.append(
            milliseconds(
                f"{changed} changes before it, median",
                median,
                at_most=bound,
            )
        )
    return Result(
        name="decision",
        title="The decision at the size of a peer's suite",
        reading=(
            f"{size.pending} groups of three classes wait in {size.queues} queues of {size.cohorts} cohorts"
            f" for {size.nodes} nodes with {_NODE_CPUS} CPUs; queues have 20 CPUs of their own, may borrow"
            " 100, evict lower priorities and reclaim. Before each cycle rows ended, or were submitted; what"
            " the cycle admits has changed too. What the plan says comes to be, and the collector spares the"
            " World, as in the leader. The time is that of the plan with all explanations, without"
            f" stores; its limit is {_FIXED_MS:g} ms, and {_MICROSECONDS_PER_ROW:g} µs for each row that"
            " changed."
        ),
        parameters={
            "queues": size.queues,
            "cohorts": size.cohorts,
            "nodes": size.nodes,
            "pending": size.pending,
        },
        figures=figures,
        parts=[*rows_of, *functions.parts("decision")],
        limit="Each admission is placed in Python, and each queue from which something left is listed anew.",
    )
