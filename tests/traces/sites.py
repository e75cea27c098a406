"""The traces as logs, and the sites on which the reference replayed them."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from service.admission.policy import Policy
from service.domain.queue import Order, OrderBy
from simulation.groups import Spread, jobs_of, layout_of
from simulation.logs.csv import read_csv
from simulation.logs.log import Log
from simulation.logs.spec import Spec
from simulation.outcome.outcome import Outcome
from simulation.replay.run import replay
from simulation.sites.site import Site
from tests.builders import configuration, node, queue

TRACES = {"ci": "philly_ci_3d.csv", "15k": "philly_vc11_15k.csv.gz", "82k": "philly_82k.csv.gz"}
#: Seconds, longer than any of them.
NEVER = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`knows_times`: the planner is told how long each job runs, as its time limit."""

    order: Order
    order_by: OrderBy = OrderBy.AGE
    reserve_depth: int = 0
    knows_times: bool = False


RULES = {
    "FIFO": Rule(order=Order.STRICT),
    "first-fit": Rule(order=Order.BEST_EFFORT),
    "EASY": Rule(order=Order.BEST_EFFORT, reserve_depth=1, knows_times=True),
    "SJF": Rule(order=Order.STRICT, order_by=OrderBy.SHORTEST, knows_times=True),
}


def read_trace(philly: Path, name: str, *, knows_times: bool) -> Log:
    columns = {
        "name": "job_id",
        "submitted_at": "submit_s",
        "runtime": "duration_s",
        "gpus": "num_gpus",
        "tenant": "vc",
    }
    log = read_csv(philly / TRACES[name], Spec(columns=columns, start="2017-08-14"))  # type: ignore[arg-type]
    if not knows_times:
        return log
    jobs = [replace(job, time_limit_seconds=max(1.0, job.runtime_seconds)) for job in log.jobs]
    return replace(log, jobs=jobs)


def vc_nodes(philly: Path) -> dict[str, int]:
    """Nodes of 8 GPUs by virtual cluster."""
    with (philly / "philly_vc_nodes.csv").open() as file:
        return {row["vc"]: int(row["nodes"]) for row in csv.DictReader(file)}


def pool_site(nodes: int, rule: Rule, spread: Spread) -> Site:
    """One pool and one queue. Spread over single GPUs, all of them are on one node."""
    sizes = [8] * nodes if spread is Spread.NODES else [8 * nodes]
    config = configuration(
        [node(number, gpus=gpus) for number, gpus in enumerate(sizes, 1)],
        [queue(1, order=rule.order, order_by=rule.order_by)],
    )
    return Site(name=f"{nodes} x 8", configuration=config, policy=policy_of(rule), open_queue=1)


def vc_site(pools: Mapping[str, int], rule: Rule, spread: Spread) -> Site:
    """A pool and a queue for each virtual cluster."""
    nodes, queues = [], []
    for number, (_, count) in enumerate(pools.items(), 1):
        sizes = [8] * count if spread is Spread.NODES else [8 * count]
        nodes += [node(1000 * number + each, gpus=gpus, pool=number) for each, gpus in enumerate(sizes)]
        queues.append(queue(number, order=rule.order, order_by=rule.order_by, pools=(f"p{number}",)))
    return Site(
        name=f"{len(pools)} pools",
        configuration=configuration(nodes, queues),
        policy=policy_of(rule),
        queue_of={name: number for number, name in enumerate(pools, 1)},
    )


def policy_of(rule: Rule) -> Policy:
    return Policy(reserve_depth=rule.reserve_depth, guard_seconds=NEVER)


def replayed(log: Log, site: Site, spread: Spread) -> Outcome:
    return replay(site, jobs_of(log, site, layout_of(site, spread=spread)), histories=0)
