"""What a World remembers from earlier cycles saves work and decides nothing: a plan without memory is the
same, with every number and reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.admission.cycle import plan_cycle
from service.admission.memory import Memory
from service.admission.plan import Plan
from tests.builders import NOW
from tests.simulation.mixed import HORIZON, simulation_of, site


@pytest.mark.parametrize("seed", range(20, 24))
def test_a_world_without_memory_makes_the_same_plan(seed: int) -> None:
    made = site(seed, count=50)
    simulation = simulation_of(made)
    for moment in simulation.run(NOW + HORIZON):
        world = simulation.world
        warm, memory = plan_cycle(world, moment.now, policy=made.policy), world.memory
        world.memory = Memory()
        cold = plan_cycle(world, moment.now, policy=made.policy)
        world.memory = memory
        assert _decided(warm) == _decided(cold)


def _decided(plan: Plan) -> Plan:
    """But for what is noted of guard clocks: pauses that nobody asks about any more are cleared away when
    their queue is looked at, which memory puts off."""
    return replace(plan, pauses_dropped=frozenset())
