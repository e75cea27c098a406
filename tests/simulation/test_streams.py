"""Random streams through the real cycle on a virtual clock."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from service.admission.world import Configuration
from simulation.job import Job
from simulation.replay.agenda import Submit
from simulation.replay.loop import Moment, Simulation
from tests.builders import NOW, Group, after, configuration, gang, independent, node, queue, role
from tests.simulation.rules import check

_HORIZON = timedelta(days=30)


def cluster() -> Configuration:
    nodes = [node(number, gpus=4, labels={"rack": f"r{number % 2}"}) for number in range(1, 5)]
    queues = [queue(1, nominal={"mx": 8}), queue(2, nominal={"mx": 12}), queue(3)]
    return configuration(nodes, queues, levels=("rack", "host"))


def stream(seed: int, count: int) -> list[Job]:
    """Groups of both kinds, some of them without a time limit and without an end in sight."""
    chosen = random.Random(seed)
    jobs, at = [], 0.0
    for group_id in range(1, count + 1):
        at += chosen.expovariate(1 / 600)
        group = _group(chosen, group_id, at)
        runtime = chosen.expovariate(1 / 5000)
        jobs.append(Job(row=group.row, shape=group.shape, runtime_seconds=runtime))
    return jobs


def _group(chosen: random.Random, group_id: int, at: float) -> Group:
    queue_id, priority = chosen.randint(1, 3), chosen.choice((0, 0, 10))
    if chosen.random() < 0.3:
        each = role(chosen.randint(1, 6), gpus=chosen.choice((0, 1, 2)))
        return independent(group_id, each, queue_id=queue_id, priority=priority, at=at)
    shape = role(chosen.randint(1, 4), gpus=chosen.choice((1, 2, 4)))
    required = chosen.choice((None, None, "rack"))
    return gang(group_id, shape, queue_id=queue_id, priority=priority, at=at, required=required)


def play(seed: int, count: int = 120) -> tuple[Simulation, list[Moment]]:
    simulation = Simulation(cluster(), start_at=NOW)
    simulation.submit(stream(seed, count))
    moments = []
    for moment in simulation.run(NOW + _HORIZON):
        check(simulation.world, moment)
        moments.append(moment)
    return simulation, moments


@pytest.mark.parametrize("seed", range(2))
def test_the_rules_hold_at_every_moment(seed: int) -> None:
    simulation, moments = play(seed)
    admitted = [each.unit_id for moment in moments for each in moment.plan.admissions]
    assert len(admitted) == len(set(admitted))
    assert len(admitted) > 100
    assert not simulation.world.running


def test_the_same_jobs_give_the_same_moments() -> None:
    assert [moment.plan for moment in play(7)[1]] == [moment.plan for moment in play(7)[1]]


def test_an_attempt_that_was_cancelled_before_its_start_never_runs() -> None:
    simulation = Simulation(configuration([node(1, gpus=1)], [queue()]), start_at=NOW)
    first, second = gang(1), gang(2)
    simulation.submit(
        Job(row=group.row, shape=group.shape, runtime_seconds=100.0) for group in (first, second)
    )
    simulation.cancel(2, after(50))
    moments = list(simulation.run(after(1000)))
    assert [moment.now for moment in moments] == [after(0), after(50), after(100)]
    assert [each.group_id for moment in moments for each in moment.plan.admissions] == [1]
    assert isinstance(moments[0].happenings[0], Submit)
