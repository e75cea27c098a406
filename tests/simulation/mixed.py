"""Random sites and streams in which everything of the policy meets: cohorts, preemption, claims and guards,
limits, elastic groups, ranges, strict queues and holds."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta

from service.admission.policy import Policy
from service.admission.world import Configuration, Queue
from service.domain.dependency import When
from service.domain.queue import Order, OrderBy, PreemptWithin, Reclaim, Stop
from service.domain.shape import Sizing
from service.domain.status import Status
from simulation.job import Job
from simulation.replay.loop import Moment, Simulation
from tests.builders import (
    NOW,
    Group,
    after,
    cohort,
    configuration,
    gang,
    independent,
    node,
    queue,
    role,
    shape_id,
)

HORIZON = timedelta(days=60)
GUARD_SECONDS = 20_000.0
OWNERS = ("t/ann", "t/ben", "t/cem")


@dataclass(frozen=True)
class Site:
    configuration: Configuration
    policy: Policy
    jobs: tuple[Job, ...]
    #: Group, when it is held, and when it is released.
    holds: tuple[tuple[int, float, float], ...]
    #: What the configuration becomes, and when.
    changes: tuple[tuple[float, Configuration], ...] = ()


def site(seed: int, count: int = 80) -> Site:
    rng = random.Random(seed)
    nodes = [node(number, gpus=4, labels={"rack": f"r{number % 2}"}) for number in range(1, 7)]
    queues = [mixed_queue(rng, number) for number in range(1, 6)]
    cohorts = [cohort(1, parent=3), cohort(2, parent=3), cohort(3)]
    config = configuration(nodes, queues, cohorts=cohorts, levels=("rack", "host"))
    policy = Policy(reserve_depth=rng.choice((0, 1, 2, None)), guard_seconds=GUARD_SECONDS)
    at, jobs, holds = 0.0, [], []
    for group_id in range(1, count + 1):
        at += rng.expovariate(1 / 500)
        jobs.append(_job(rng, group_id, at))
        if rng.random() < 0.1:
            holds.append((group_id, at + rng.uniform(0, 3000), at + rng.uniform(3000, 9000)))
    return Site(config, policy, tuple(jobs), tuple(holds))


def strict(made: Site) -> Site:
    """The same where every queue stops at its blocked head."""
    config = made.configuration
    queues = {queue_id: replace(each, order=Order.STRICT) for queue_id, each in config.queues.items()}
    return replace(made, configuration=replace(config, queues=queues))


def by_length(made: Site, seed: int) -> Site:
    """The same where some queues, or all, go by more than age."""
    rng, config = random.Random(seed), made.configuration
    queues = {
        queue_id: replace(each, policy=replace(each.policy, order_by=rng.choice(list(OrderBy)[1:])))
        for queue_id, each in config.queues.items()
        if rng.random() < 0.8
    }
    return replace(made, configuration=replace(config, queues={**config.queues, **queues}))


def endless(made: Site) -> Site:
    """The same where nobody has a time limit."""
    jobs = (
        replace(
            job,
            row=replace(job.row, time_limit_seconds=None, grace_seconds=0),
            runtime_seconds=job.runtime_seconds or 3000.0,
        )
        for job in made.jobs
    )
    return replace(made, jobs=tuple(jobs))


def unlike(made: Site, seed: int) -> Site:
    """The same on nodes of two models, of both, or of none, with scarce CPUs on some, for roles that take one
    model or either; every blocked head may have a claim."""
    rng, config = random.Random(seed), made.configuration
    kinds: tuple[list[tuple[str, int]], ...] = (
        [("mx", 80)] * 4,
        [("my", 40)] * 4,
        [("mx", 80), ("my", 40)] * 2,
        [],
    )
    nodes = [
        node(number, devices=rng.choice(kinds), labels={"rack": f"r{number % 2}"}, cpus=rng.choice((6, 64)))
        for number in range(1, 9)
    ]
    quotas = ({"mx": 4, "my": 4}, {"mx": 8, "my": 0}, {"mx": 0, "my": 6}, {"mx": 2, "my": 2, "cpus": 12_000})
    queues = {
        queue_id: replace(each, quota=replace(each.quota, nominal=rng.choice(quotas)))
        for queue_id, each in config.queues.items()
    }
    config = replace(configuration(nodes, queues.values(), levels=("rack", "host")), cohorts=config.cohorts)
    shapes = [(models, cpus) for models in ((), ("mx",), ("my",), ("my", "mx")) for cpus in (1000, 2000)]
    jobs = tuple(_on_models(job, *rng.choice(shapes)) for job in made.jobs)
    return replace(made, configuration=config, policy=replace(made.policy, reserve_depth=None), jobs=jobs)


def _on_models(job: Job, models: tuple[str, ...], cpus_milli: int) -> Job:
    roles = tuple(
        replace(
            each,
            models=models if each.requests.gpus else (),
            requests=replace(each.requests, cpus_milli=cpus_milli),
        )
        for each in job.shape.roles
    )
    shape = replace(job.shape, roles=roles)
    return replace(job, shape=shape, row=replace(job.row, shape_id=shape_id(shape)))


def troubled(made: Site, seed: int) -> Site:
    """The same with starts that fail, groups that wait for others, nodes that are lost and come back, devices
    that are unwell for a while, and queues that are stopped or drained. All is well again at the end."""
    rng, jobs, at = random.Random(seed), [], 0.0
    for job in made.jobs:
        others = rng.sample(range(1, job.group_id), 1) if job.group_id > 1 and rng.random() < 0.2 else []
        jobs.append(
            replace(
                job,
                failed_starts=rng.choice((0, 0, 0, 1, 3)),
                ends_as=Status.FAILED if rng.random() < 0.2 else Status.SUCCEEDED,
                after=tuple((other, rng.choice(list(When))) for other in others),
            )
        )
    changes = []
    for version in range(2, 18):
        at += rng.uniform(500, 4000)
        changes.append((at, _in_trouble(rng, made.configuration, version)))
    changes.append((at + 2000, replace(made.configuration, version=18)))
    return replace(made, jobs=tuple(jobs), changes=tuple(changes))


def _in_trouble(rng: random.Random, config: Configuration, version: int) -> Configuration:
    nodes = {
        node_id: replace(
            each,
            is_ready=rng.random() < 0.85,
            is_cordoned=rng.random() < 0.1,
            devices=tuple(replace(device, is_healthy=rng.random() < 0.93) for device in each.devices),
        )
        for node_id, each in config.nodes.items()
    }
    stops = (Stop.NONE, Stop.NONE, Stop.NONE, Stop.HOLD, Stop.HOLD_AND_DRAIN)
    queues = {queue_id: replace(each, stop=rng.choice(stops)) for queue_id, each in config.queues.items()}
    return replace(config, version=version, nodes=nodes, queues=queues)


def mixed_queue(rng: random.Random, queue_id: int) -> Queue:
    return queue(
        queue_id,
        order=rng.choice((Order.BEST_EFFORT, Order.BEST_EFFORT, Order.STRICT)),
        cohort=rng.choice((1, 2, 3)),
        nominal={"mx": rng.choice((0, 4, 6, 8))},
        borrowing={"mx": rng.choice((0, 4))} if rng.random() < 0.2 else None,
        lending={"mx": rng.choice((0, 2))} if rng.random() < 0.2 else None,
        limit={"mx": 12} if rng.random() < 0.2 else None,
        preempt_within=rng.choice(list(PreemptWithin)),
        reclaim=rng.choice(list(Reclaim)),
        weight=rng.choice((0, 1, 1, 2)),
        user_limit={"mx": 6} if rng.random() < 0.3 else {},
        group_limit={"mx": 5} if rng.random() < 0.2 else {},
        min_runtime_seconds=rng.choice((0, 0, 900)),
        evictions_per_day=rng.choice((None, None, 2)),
    )


def _job(rng: random.Random, group_id: int, at: float) -> Job:
    made = _group(rng, group_id, at)
    limit = rng.choice((None, 1000, 4000, 9000))
    row = replace(
        made.row,
        owner=rng.choice(OWNERS),
        time_limit_seconds=limit,
        grace_seconds=rng.choice((0, 0, 120)),
        is_preemptible=rng.random() < 0.9,
    )
    runtime = rng.expovariate(1 / 3000) if limit is None or rng.random() < 0.7 else None
    return Job(row=row, shape=made.shape, runtime_seconds=runtime, stop_seconds=rng.choice((0, 60)))


def _group(rng: random.Random, group_id: int, at: float) -> Group:
    where = {"queue_id": rng.randint(1, 5), "priority": rng.choice((0, 0, 0, 10)), "at": at}
    kind = rng.random()
    if kind < 0.2:
        each = role(rng.randint(1, 6), gpus=rng.choice((0, 1, 2)))
        return independent(group_id, each, **where)  # type: ignore[arg-type]
    if kind < 0.4:
        elastic = role(rng.randint(2, 5), gpus=rng.choice((1, 2)), least=1)
        sizing = rng.choice((Sizing.AT_START, Sizing.WHILE_RUNNING))
        return gang(group_id, elastic, sizing=sizing, **where)  # type: ignore[arg-type]
    shape = role(rng.randint(1, 4), gpus=rng.choice((1, 2, 4)))
    required = rng.choice((None, None, "rack"))
    return gang(group_id, shape, required=required, **where)  # type: ignore[arg-type]


def simulation_of(made: Site, jobs: Iterable[Job] | None = None) -> Simulation:
    simulation = Simulation(made.configuration, start_at=NOW, policy=made.policy)
    simulation.submit(made.jobs if jobs is None else jobs)
    for group_id, held_at, released_at in made.holds:
        simulation.hold(group_id, after(held_at))
        simulation.hold(group_id, after(released_at), is_held=False)
    for at, config in made.changes:
        simulation.configure(config, after(at))
    return simulation


def moments_of(made: Site) -> list[Moment]:
    return list(simulation_of(made).run(NOW + HORIZON))
