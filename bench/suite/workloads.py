"""The peer's three workloads: which streams of groups come to which queues, and on which nodes they run.

Every (cohort, queue, set) is a stream of its own that waits for its interval before each group, so that
number i of a stream is due at (i + 1) intervals. All streams begin together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

RACK = "rack"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One set of each queue: `count` groups, one each `interval_ms`. `level`: how the topology level of the
    rack is asked for, `required`, `preferred` or `balanced`; empty without topology."""

    kind: str
    count: int
    interval_ms: int
    runtime_ms: int
    priority: int
    cpus_milli: int
    members: int = 1
    level: str = ""
    slice_size: int = 1

    @property
    def whole_cpus(self) -> float:
        return self.members * self.cpus_milli / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """`queues` in each of `cohorts`. `racks` 0: nodes without topology."""

    name: str
    cohorts: int
    queues: int
    streams: tuple[Stream, ...]
    nodes: int
    node_cpus: int
    node_memory_gib: int
    racks: int = 0
    quota_cpus: int = 20
    borrowing_cpus: int = 100

    @property
    def groups(self) -> int:
        return self.cohorts * self.queues * sum(stream.count for stream in self.streams)

    @property
    def nominal_cpus(self) -> int:
        return self.cohorts * self.queues * self.quota_cpus

    def classes(self) -> Mapping[str, int]:
        """How many groups of each class, in all queues."""
        each = self.cohorts * self.queues
        return {stream.kind: each * stream.count for stream in self.streams}

    def queue_names(self) -> Iterator[tuple[str, str]]:
        """(cohort, queue) in their order."""
        for cohort in range(self.cohorts):
            for queue in range(self.queues):
                yield f"cohort-{cohort}", f"cohort-{cohort}-queue-{queue}"

    def shortened(self, share: float) -> Workload:
        """With so much of each stream, at least one group of each."""
        streams = (replace(each, count=max(1, round(each.count * share))) for each in self.streams)
        return replace(self, streams=tuple(streams))


def _stream(kind: str, count: int, interval_ms: int, *, runs: int, priority: int, cpus: int) -> Stream:
    return Stream(
        kind=kind,
        count=count,
        interval_ms=interval_ms,
        runtime_ms=runs,
        priority=priority,
        cpus_milli=1000 * cpus,
    )


def _topology_streams() -> Iterator[Stream]:
    """Three kinds of each class; the totals are those of baseline."""
    shapes = (
        ("small", (120, 120, 110), 100, 200, 50, 2, 500, 1),
        ("medium", (34, 33, 33), 500, 500, 100, 4, 1250, 2),
        ("large", (17, 17, 16), 1200, 1000, 200, 8, 2500, 4),
    )
    for kind, counts, interval, runtime, priority, members, milli, size in shapes:
        for level, count in zip(("required", "preferred", "balanced"), counts, strict=True):
            yield Stream(
                kind=f"{kind}-{level}",
                count=count,
                interval_ms=interval,
                runtime_ms=runtime,
                priority=priority,
                cpus_milli=milli,
                members=members,
                level=level,
                slice_size=size,
            )


BASELINE = Workload(
    name="baseline",
    cohorts=5,
    queues=6,
    streams=(
        _stream("small", 350, 100, runs=200, priority=50, cpus=1),
        _stream("medium", 100, 500, runs=500, priority=100, cpus=5),
        _stream("large", 50, 1200, runs=1000, priority=200, cpus=20),
    ),
    nodes=10,
    node_cpus=120,
    node_memory_gib=1024,
)
LARGE_SCALE = Workload(
    name="large-scale",
    cohorts=10,
    queues=100,
    streams=(
        _stream("small", 35, 60, runs=150, priority=50, cpus=1),
        _stream("medium", 11, 300, runs=350, priority=100, cpus=5),
        _stream("large", 4, 700, runs=700, priority=200, cpus=20),
    ),
    nodes=334,
    node_cpus=120,
    node_memory_gib=1024,
)
TAS = Workload(
    name="tas",
    cohorts=5,
    queues=6,
    streams=tuple(_topology_streams()),
    nodes=640,
    node_cpus=96,
    node_memory_gib=256,
    racks=10,
)
WORKLOADS = {each.name: each for each in (BASELINE, LARGE_SCALE, TAS)}
