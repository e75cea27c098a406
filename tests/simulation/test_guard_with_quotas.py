"""Rule 7 where queues of a cohort borrow from each other: who lacks nothing but places starts within the
bound, by a clock that stands still while anything else is missing, and nobody starves."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta

import pytest

from service.admission.policy import Policy
from service.admission.resident import World
from service.admission.waiting.eligibility import is_eligible
from service.admission.world import Configuration
from service.domain.claim import ClaimCause
from simulation.replay.loop import Simulation
from tests.builders import NOW, cohort, configuration, node, queue
from tests.simulation.recount import Recount
from tests.simulation.test_backfill import stream
from tests.simulation.test_guard import GUARD_SECONDS, LONGEST_SECONDS, TICK_SECONDS, ticking


def borrowing_queues(seed: int) -> Configuration:
    """With more quota than GPUs, so that places are what is missing most of the time."""
    rng = random.Random(seed)
    nodes = [node(number, gpus=4, labels={"rack": f"r{number % 2}"}) for number in range(1, 6)]
    queues = [
        queue(
            number,
            cohort=1,
            nominal={"mx": rng.choice((6, 8, 12))},
            borrowing={"mx": rng.choice((4, 8))} if rng.random() < 0.4 else None,
        )
        for number in (1, 2, 3)
    ]
    return configuration(nodes, queues, cohorts=[cohort(1)], levels=("rack", "host"))


def _lacking_places_alone(world: World, now: datetime) -> set[int]:
    count = Recount(world)
    return {
        row.id
        for row in world.pending.values()
        if is_eligible(row, now)
        and world.could_fit(row)
        and not count.short_of(row)
        and not count.is_over_own_limits(row)
    }


@pytest.mark.parametrize(("seed", "depth"), [(0, 0), (0, 1), (3, 1)])
def test_with_quotas_too_everybody_starts_within_the_bound(seed: int, depth: int) -> None:
    policy = Policy(reserve_depth=depth, guard_seconds=GUARD_SECONDS)
    simulation = Simulation(borrowing_queues(seed), start_at=NOW, policy=policy)
    simulation.submit(stream(seed, count=90, priorities=(0,), endless=0.0))
    world, clocks, lacking, last_at = simulation.world, Counter[int](), set[int](), NOW
    guards = most_guards = 0
    for moment in ticking(simulation, NOW + timedelta(days=2)):
        clocks.update(dict.fromkeys(lacking, round((moment.now - last_at).total_seconds())))
        lacking, last_at = _lacking_places_alone(world, moment.now), moment.now
        guards += sum(claim.cause is ClaimCause.GUARD for claim in moment.plan.claims_made)
        now = sum(claim.cause is ClaimCause.GUARD for claim in world.claims.values())
        most_guards = max(most_guards, now)
    assert not [row.public_id for row in world.pending.values() if world.could_fit(row)]
    print(f"depth {depth}: {guards} guards, the longest clock {max(clocks.values())} s")
    assert guards > 5
    assert max(clocks.values()) <= GUARD_SECONDS + TICK_SECONDS + LONGEST_SECONDS * (1 + most_guards)
