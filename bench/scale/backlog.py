"""Cycles and the worker over backlogs that wait for clusters, each of many sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bench.crowd.measure import fill_nodes, make_leader, measure_warm, take_over
from bench.crowd.result import Found
from bench.crowd.site import Crowd, Size
from bench.results import quantile
from bench.scale.worker import start_over
from bench.servers import both_stores, require_fsync, short_folder
from service.clock import SystemClock
from service.inventory.client import make_client
from service.store.engine import make_engine

#: So many things change before a warm cycle: few enough for the smallest cluster.
CHANGES = 20
_NODES_OF_QUEUE, _QUEUES_OF_COHORT, _MOST_QUEUES = 5, 10, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Seconds and bytes, of one backlog and one cluster."""

    nodes: int
    pending: int
    cold: float
    warm: float
    first_admission: float
    memory: int


def measure_backlogs(
    nodes: int, pending: Sequence[int], *, cycles: int, say: Callable[[str], None], is_durable: bool = True
) -> Iterator[Point]:
    """On servers of their own: a cluster of `nodes`, and backlogs that grow."""
    with short_folder() as folder, both_stores(folder) as (database_url, redis_url):
        engine, client = make_engine(database_url), make_client(redis_url, timeout_seconds=30.0)
        try:
            if is_durable:
                require_fsync(engine)
            crowd = Crowd(engine, SystemClock(), size_of(nodes, max(pending)))
            fill_nodes(database_url, client, crowd)
            waiting = 0
            for count in sorted(pending):
                say(f"{nodes:,} nodes, {count:,} waiting")
                crowd.crowd(count - waiting)
                waiting = count
                # 1. The worker, from its start.
                _let_some_in(crowd)
                started = start_over(database_url, redis_url, engine, folder)
                # 2. Cycles of a leader that takes over from it.
                _let_some_in(crowd)
                found, leader = Found(), make_leader(database_url, client)
                try:
                    take_over(leader, found)
                    measure_warm(leader, crowd, found, changes=CHANGES, cycles=cycles)
                finally:
                    leader.close()
                yield Point(
                    nodes=nodes,
                    pending=count,
                    cold=found.cold,
                    warm=quantile(found.warm[CHANGES], 0.5),
                    first_admission=started.first_admission,
                    memory=started.memory,
                )
        finally:
            client.close()
            engine.dispose()


def _let_some_in(crowd: Crowd) -> None:
    """Nodes have come free, and at least one group fits."""
    crowd.change(CHANGES)
    crowd.submit_one_that_fits()
    crowd.books.settle()


def size_of(nodes: int, pending: int) -> Size:
    """Queues by the cluster, so that each has the quota of five nodes or more."""
    queues = min(_MOST_QUEUES, nodes // _NODES_OF_QUEUE)
    return Size(nodes=nodes, queues=queues, cohorts=max(1, queues // _QUEUES_OF_COHORT), pending=pending)
