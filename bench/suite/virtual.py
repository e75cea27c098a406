"""The decision alone: the same streams on a virtual clock around the real World and the real cycle. Every
group starts at the instant of its admission and ends after its runtime; nothing else takes time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from bench.suite.workloads import RACK, Stream, Workload
from service.admission.world import Cohort, Configuration, Node, PendingUnit, Pool, Queue
from service.domain.queue import PreemptWithin, QueuePolicy, Quota, Reclaim
from service.domain.resources import CPUS, Resources
from service.domain.shape import RoleShape, Scheduling, Shape, Slice
from service.domain.unit import unit_id
from simulation.job import Job
from simulation.replay.loop import Simulation
from workers.collector import spare_collector

_START = datetime(2026, 1, 1, tzinfo=UTC)
_LEVELS = ("block", RACK, "host")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """`seconds` and `cpu_seconds` of the whole replay; `makespan_seconds` of the virtual clock."""

    seconds: float
    cpu_seconds: float
    cycles: int
    admissions: int
    evictions: int
    makespan_seconds: float


def replay(workload: Workload, *, has_preemption: bool) -> Decided:
    """Raises RuntimeError if a group does not come to its end."""
    jobs = list(jobs_of(workload))
    simulation = Simulation(configuration_of(workload, has_preemption=has_preemption), start_at=_START)
    simulation.submit(jobs)
    spare_collector()
    began_at, cpu_at = time.perf_counter(), time.process_time()
    cycles = admissions = evictions = 0
    for moment in simulation.run(_START + timedelta(days=1)):
        cycles += 1
        admissions += len(moment.plan.admissions)
        evictions += len(moment.plan.evictions)
    seconds, cpu_seconds = time.perf_counter() - began_at, time.process_time() - cpu_at
    if admissions - evictions != len(jobs) or simulation.world.running:
        raise RuntimeError(f"{admissions} admissions, {evictions} evictions of {len(jobs)} groups")
    makespan = (simulation.now - _START).total_seconds()
    return Decided(
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        cycles=cycles,
        admissions=admissions,
        evictions=evictions,
        makespan_seconds=makespan,
    )


def configuration_of(workload: Workload, *, has_preemption: bool) -> Configuration:
    policy = QueuePolicy(
        preempt_within=PreemptWithin.LOWER_PRIORITY if has_preemption else PreemptWithin.NEVER,
        reclaim=Reclaim.ANY if has_preemption else Reclaim.NEVER,
    )
    quota = Quota(
        nominal={CPUS: 1000 * workload.quota_cpus}, borrowing={CPUS: 1000 * workload.borrowing_cpus}
    )
    names = list(workload.queue_names())
    cohorts = {name: number for number, name in enumerate(dict.fromkeys(name for name, _ in names), start=1)}
    return Configuration(
        version=1,
        cohorts={number: Cohort(id=number, name=name) for name, number in cohorts.items()},
        queues={
            number: Queue(id=number, name=name, cohort_id=cohorts[cohort], quota=quota, policy=policy)
            for number, (cohort, name) in enumerate(names, start=1)
        },
        pools={1: Pool(id=1, name="bench", levels=_LEVELS if workload.racks else _LEVELS[-1:])},
        nodes={number: _node(workload, number) for number in range(1, workload.nodes + 1)},
    )


def _node(workload: Workload, number: int) -> Node:
    name = f"node-{number}"
    labels = {"host": name}
    if workload.racks:
        rack = (number - 1) * workload.racks // workload.nodes + 1
        labels |= {"block": "b1", RACK: f"r{rack}"}
    return Node(
        id=number,
        name=name,
        pool_id=1,
        cpus_milli=1000 * workload.node_cpus,
        memory_mib=1024 * workload.node_memory_gib,
        labels=labels,
    )


def jobs_of(workload: Workload) -> Iterator[Job]:
    """In the order in which they are due; within an instant by stream, then by queue."""
    queues = workload.cohorts * workload.queues
    due = sorted(
        ((number + 1) * stream.interval_ms, index)
        for index, stream in enumerate(workload.streams)
        for number in range(stream.count)
    )
    for turn, (at_ms, index) in enumerate(due):
        stream = workload.streams[index]
        shape = shape_of(stream)
        for queue in range(1, queues + 1):
            group_id = turn * queues + queue
            yield Job(
                row=_row(
                    group_id, queue, index + 1, stream=stream, at=_START + timedelta(milliseconds=at_ms)
                ),
                shape=shape,
                runtime_seconds=stream.runtime_ms / 1000,
            )


def shape_of(stream: Stream) -> Shape:
    """What the service makes of the stream's groups."""
    role = RoleShape(
        name="worker",
        count=stream.members,
        min_count=stream.members,
        requests=Resources(cpus_milli=stream.cpus_milli, memory_mib=1024),
        slice=Slice(level=RACK, size=stream.slice_size) if stream.slice_size > 1 else None,
    )
    return Shape(
        scheduling=Scheduling.GANG,
        roles=(role,),
        required=RACK if stream.level == "required" else None,
        preferred=RACK if stream.level in ("preferred", "balanced") else None,
    )


def _row(group_id: int, queue: int, shape_id: int, *, stream: Stream, at: datetime) -> PendingUnit:
    return PendingUnit(
        id=unit_id(group_id, 0),
        group_id=group_id,
        public_id=str(group_id),
        queue_id=queue,
        shape_id=shape_id,
        priority=stream.priority,
        submitted_at=at,
        first_index=0,
        last_index=0,
        attempt=1,
        version=1,
    )
