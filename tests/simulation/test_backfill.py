"""Backfill on random streams: whoever has a dated claim starts no later than it says, whatever is admitted
after it, and groups without a time limit stay off its places."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import pytest

from service.admission.policy import Policy
from service.admission.world import Configuration
from service.domain.queue import PreemptWithin
from simulation.job import Job
from simulation.replay.agenda import Configure, Deadline, Refused
from simulation.replay.loop import Simulation
from tests.builders import NOW, Group, after, configuration, gang, independent, node, queue, role
from tests.simulation.promises import Promises

DEPTHS = (1, 2, None)
SEEDS = range(3)
#: Longer than any stream.
NEVER = 1e9


def cluster(*, may_preempt: bool) -> Configuration:
    nodes = [node(number, gpus=4, labels={"rack": f"r{number % 2}"}) for number in range(1, 6)]
    within = PreemptWithin.LOWER_PRIORITY if may_preempt else PreemptWithin.NEVER
    queues = [queue(1, preempt_within=within), queue(2), queue(3)]
    return configuration(nodes, queues, levels=("rack", "host"))


def stream(seed: int, *, count: int, priorities: Iterable[int], endless: float = 0.25) -> list[Job]:
    """`endless`: how many have no time limit; they end all the same, which nobody can know."""
    rng = random.Random(seed)
    jobs, at, choices = [], 0.0, tuple(priorities)
    for group_id in range(1, count + 1):
        at += rng.expovariate(1 / 400)
        made = _group(rng, group_id, at=at, priority=rng.choice(choices))
        limit = None if rng.random() < endless else rng.choice((300, 1000, 3000, 9000))
        grace = rng.choice((0, 60, 300))
        row = replace(made.row, time_limit_seconds=limit, grace_seconds=grace)
        runtime = rng.expovariate(1 / 3000) if limit is None or rng.random() < 0.7 else None
        stop = rng.choice((0.0, 30.0, float(grace)))
        jobs.append(Job(row=row, shape=made.shape, runtime_seconds=runtime, stop_seconds=stop))
    return jobs


def _group(rng: random.Random, group_id: int, *, at: float, priority: int) -> Group:
    queue_id = rng.randint(1, 3)
    if rng.random() < 0.2:
        each = role(rng.randint(1, 4), gpus=rng.choice((1, 2)))
        return independent(group_id, each, queue_id=queue_id, priority=priority, at=at)
    shape = role(rng.choice((1, 1, 2, 4)), gpus=rng.choice((1, 2, 4)), cpus=rng.choice((1, 1, 30)))
    required = rng.choice((None, None, None, "rack"))
    return gang(group_id, shape, queue_id=queue_id, priority=priority, at=at, required=required)


def play(jobs: Iterable[Job], depth: int | None, *, may_preempt: bool = False, losses: int = 0) -> Promises:
    """`losses`: how often a node is lost, to come back later."""
    policy = Policy(reserve_depth=depth, guard_seconds=NEVER)
    simulation = Simulation(cluster(may_preempt=may_preempt), start_at=NOW, policy=policy)
    simulation.submit(jobs)
    promises = Promises(simulation)
    _lose_nodes(simulation, losses)
    for moment in simulation.run(NOW + timedelta(days=60)):
        is_disturbed = any(isinstance(each, (Configure, Deadline, Refused)) for each in moment.happenings)
        promises.check(moment, is_disturbed=is_disturbed)
    world = simulation.world
    assert not [row.public_id for row in world.pending.values() if world.could_fit(row)]
    return promises


def _lose_nodes(simulation: Simulation, losses: int) -> None:
    config = simulation.world.configuration
    for number in range(1, losses + 1):
        lost = replace(config.nodes[number % 5 + 1], is_ready=False)
        down = replace(config, version=2 * number, nodes={**config.nodes, lost.id: lost})
        simulation.configure(down, after(number * 4000))
        simulation.configure(replace(config, version=2 * number + 1), after(number * 4000 + 1500))


def test_what_is_admitted_later_moves_no_date_though_nodes_are_lost_and_come_back() -> None:
    promises = play(stream(0, count=100, priorities=(0,)), 2, losses=9)
    print(f"{promises.made} dated claims, {promises.kept} kept")
    assert promises.overtaken == 0
    assert promises.kept > 20


@pytest.mark.parametrize("depth", DEPTHS)
def test_what_is_admitted_later_moves_no_date_and_delays_no_start(depth: int | None) -> None:
    made = kept = beside = 0
    for seed in SEEDS:
        promises = play(stream(seed, count=100, priorities=(0,)), depth)
        assert promises.overtaken == 0
        made, kept, beside = made + promises.made, kept + promises.kept, beside + promises.beside
    print(f"depth {depth}: {made} dated claims, {kept} kept, {beside} others ran on their places before")
    assert kept == made > 40
    assert beside > 10


@pytest.mark.parametrize("depth", DEPTHS)
def test_only_a_higher_priority_of_the_same_queue_moves_a_date(depth: int | None) -> None:
    made = overtaken = 0
    for seed in SEEDS:
        promises = play(stream(seed, count=100, priorities=(0, 0, 0, 10)), depth)
        made, overtaken = made + promises.made, overtaken + promises.overtaken
    print(f"depth {depth}: {made} dated claims, {overtaken} overtaken")
    assert made > 40
    assert overtaken > 0


def test_without_a_time_limit_a_group_runs_on_claimed_places_only_of_who_may_preempt_it() -> None:
    beside = without_limit = 0
    for seed in SEEDS:
        promises = play(stream(seed, count=100, priorities=(0, 0, 10), endless=0.5), 2, may_preempt=True)
        beside, without_limit = beside + promises.beside, without_limit + promises.endless_beside
    print(f"{beside} ended by the date, {without_limit} could have been preempted")
    assert without_limit > 0
