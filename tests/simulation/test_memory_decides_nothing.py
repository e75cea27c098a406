"""What a World remembers from earlier cycles saves work and decides nothing: a plan without memory is the
same, with every number and reason."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from service.admission.cycle import plan_cycle
from service.admission.plan import Plan
from service.admission.state.memory import Memory
from tests.builders import NOW, after, loaded_afresh
from tests.simulation.mixed import HORIZON, by_length, simulation_of, site, unlike
from tests.simulation.reconfigured import CHANGES


@pytest.mark.parametrize("seed", range(20, 24))
@pytest.mark.parametrize("is_unlike", [False, True], ids=["equal nodes", "nodes of several models"])
def test_a_world_without_memory_makes_the_same_plan(seed: int, *, is_unlike: bool) -> None:
    made = site(seed, count=50)
    made = unlike(made, seed) if is_unlike else made
    made = by_length(made, seed) if seed % 2 else made
    simulation = simulation_of(made)
    for moment in simulation.run(NOW + HORIZON):
        world = simulation.world
        warm, memory = plan_cycle(world, moment.now, policy=made.policy), world.memory
        world.memory = Memory()
        cold = plan_cycle(world, moment.now, policy=made.policy)
        world.memory = memory
        assert _decided(warm) == _decided(cold)


@pytest.mark.parametrize("seed", range(20, 24))
def test_a_world_that_has_seen_other_configurations_makes_the_same_plan(seed: int) -> None:
    """As one that is loaded afresh, whatever of queues, cohorts and nodes has changed since."""
    rng, made = random.Random(seed), site(seed)
    simulation = simulation_of(made)
    config = made.configuration
    for number in range(1, 160):
        config = replace(CHANGES[rng.choice(list(CHANGES))](rng, config), version=number + 1)
        simulation.configure(config, after(250.0 * number))
    compared = 0
    for moment in simulation.run(after(250.0 * 160)):
        world = simulation.world
        warm = plan_cycle(world, moment.now, policy=made.policy)
        cold = plan_cycle(loaded_afresh(world), moment.now, policy=made.policy)
        assert _decided(warm) == _decided(cold)
        compared += 1
    assert compared > 200


def _decided(plan: Plan) -> Plan:
    """But for what is noted of guard clocks: pauses that nobody asks about any more are cleared away when
    their queue is looked at, which memory puts off."""
    return replace(plan, pauses_dropped=frozenset())
