"""Quotas, weights, limits, stops and cordoned nodes that change while groups run and wait: what is admitted
keeps the rules as they are now, and what was before goes on."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from service.admission.world import Configuration
from service.domain.queue import Stop
from tests.builders import NOW, after
from tests.simulation.mixed import HORIZON, mixed_queue, simulation_of, site
from tests.simulation.rules import check_held
from tests.simulation.test_mixed_streams import limits_are_kept

#: The last change of a stream brings back what was at its start.
CHANGES = 12
EVERY_SECONDS = 2500.0


def _changed(rng: random.Random, config: Configuration, version: int) -> Configuration:
    queues = {
        queue_id: replace(
            mixed_queue(rng, queue_id) if rng.random() < 0.3 else queue,
            cohort_id=queue.cohort_id,
            stop=rng.choice((Stop.NONE, Stop.NONE, Stop.HOLD)),
        )
        for queue_id, queue in config.queues.items()
    }
    nodes = {node_id: replace(node, is_cordoned=rng.random() < 0.2) for node_id, node in config.nodes.items()}
    return replace(config, version=version, queues=queues, nodes=nodes)


@pytest.mark.parametrize("seed", range(4))
def test_the_rules_hold_whatever_is_changed(seed: int) -> None:
    rng, made = random.Random(seed), site(seed)
    simulation = simulation_of(made)
    for number in range(1, CHANGES):
        config = _changed(rng, made.configuration, version=number + 1)
        simulation.configure(config, after(number * EVERY_SECONDS))
    last = replace(made.configuration, version=CHANGES + 1)
    simulation.configure(last, after(CHANGES * EVERY_SECONDS))
    admitted = 0
    for moment in simulation.run(NOW + HORIZON):
        world = simulation.world
        check_held(world, moment)
        limits_are_kept(world, moment)
        for admission in moment.plan.admissions:
            assert world.configuration.queues[admission.queue_id].stop is Stop.NONE
            assert not any(world.configuration.nodes[place.node_id].is_cordoned for place in admission.places)
            admitted += moment.now < after(CHANGES * EVERY_SECONDS)
    assert admitted > 20
    assert not simulation.world.running
    assert not simulation.world.claims
