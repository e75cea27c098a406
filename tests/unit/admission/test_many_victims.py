"""Victims out of more candidates than every set of which could be weighed: they are found whenever there are
some, and at a cost near the least."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from service.admission.policy import DEFAULT
from service.admission.preemption.preempt import MOST_EXACT
from service.admission.preemption.price import price_of
from service.admission.resident import World
from service.admission.world import Changes, Configuration, Queue
from service.domain.queue import PreemptWithin, Reclaim
from tests.builders import Group, Site, after, configuration, gang, node, queue, role, submitted
from tests.unit.admission.preemption_cover import cheapest_cover
from tests.unit.admission.preemption_oracle import best_victims
from tests.unit.admission.test_preemption_oracle import without_preemption
from tests.unit.admission.victim_costs import Figures, cost_of

ASKED_AT = after(1000)
BATCHES = 3
CASES = 300
SMALL_CASES = 300


def _configuration(rng: random.Random, *, is_small: bool) -> Configuration:
    """One model; queues 1 to 3 use what they have, and what the fourth lends."""

    def one(queue_id: int) -> Queue:
        own = (4, 50) if is_small else (30, 100, 100, 100)
        return queue(
            queue_id,
            cohort=1,
            nominal={"ma": rng.choice(own if queue_id == 1 else (0, 0, 2, 4, 8))},
            preempt_within=rng.choice((PreemptWithin.NEVER, *[PreemptWithin.LOWER_PRIORITY] * 4)),
            reclaim=rng.choice((Reclaim.NEVER, Reclaim.LOWER_PRIORITY, Reclaim.ANY, Reclaim.ANY)),
        )

    count = rng.randint(2, 3) if is_small else rng.randint(6, 10)
    nodes = [
        node(
            number,
            rng.choice((2, 3) if is_small else (4, 6, 8, 8)),
            model="ma",
            labels={"rack": rng.choice(("r1", "r2"))},
        )
        for number in range(1, count + 1)
    ]
    queues = [*(one(queue_id) for queue_id in (1, 2, 3)), queue(4, cohort=1, nominal={"ma": 200})]
    return configuration(nodes, queues, levels=("rack", "host"))


def _small_group(rng: random.Random, group_id: int) -> Group:
    shape = role(rng.choice((1, 1, 1, 1, 2)), rng.choice((1, 1, 1, 1, 2, 4)))
    where = {"queue_id": rng.choice((1, 1, 2, 3)), "priority": rng.choice((0, 0, 0, 1, 2))}
    return gang(group_id, shape, at=rng.randint(0, 3), **where)  # type: ignore[arg-type]


def _full(rng: random.Random, config: Configuration, *, count: int) -> World:
    site = Site()
    site.world.apply(Changes(configuration=without_preemption(config)))
    site.submit(*(_small_group(rng, group_id) for group_id in range(10, 10 + count)))
    site.cycle()
    ended = [unit_id for unit_id in site.world.running if rng.random() < 0.05]
    site.world.apply(Changes(gone=frozenset([*site.world.pending, *ended])))
    aged = {
        unit.id: replace(
            unit,
            admitted_at=after(rng.choice((0, 200, 300, 500, 700, 900, 950))),
            is_preemptible=rng.random() < 0.97,
        )
        for unit in site.world.running.values()
    }
    site.world.apply(Changes(running=aged, configuration=replace(config, version=2)))
    return site.world


def _claimant(rng: random.Random, group_id: int, *, most: int) -> Group:
    if rng.random() < 0.7:
        roles = [role(rng.randint(1, 4), rng.randint(1, most))]
    else:
        roles = [role(rng.randint(1, 2), rng.randint(1, most), name=name) for name in ("a", "b")]
    required = rng.choice((None, None, "rack", "host"))
    return gang(group_id, *roles, priority=rng.choice((1, 3, 4, 4, 4)), required=required)


def _cases(seed: int, *, count: int, is_small: bool) -> Iterator[tuple[World, Group]]:
    for number in range(seed, seed + count // 2):
        rng = random.Random(number)
        world = _full(rng, _configuration(rng, is_small=is_small), count=4 if is_small else 110)
        for group_id in (1, 2):
            claimant = _claimant(rng, group_id, most=2 if is_small else 4)
            world.apply(submitted(claimant))
            yield world, claimant
            world.apply(Changes(gone=frozenset([claimant.row.id])))


def _prices(world: World) -> dict[int, float]:
    return {unit.id: price_of(unit, DEFAULT, ASKED_AT) for unit in world.running.values()}


@pytest.mark.parametrize("batch", range(BATCHES))
def test_victims_are_found_among_many(batch: int) -> None:
    figures, most = Figures(), 0
    for world, claimant in _cases(batch * 1000, count=CASES // BATCHES, is_small=False):
        best = cheapest_cover(world, claimant.row, _prices(world))
        found = cost_of(world, claimant.row, now=ASKED_AT, most_exact=MOST_EXACT)
        figures.add(found, best, case=claimant.row.public_id)
        most = max(most, len(world.running))
    print(f"up to {most} candidates: {figures}")
    assert most > 2 * MOST_EXACT
    assert figures.several > CASES // BATCHES // 5
    assert figures.optimal >= figures.placed * 0.95
    assert figures.worst <= 1.5


def test_both_oracles_say_the_same_of_few() -> None:
    with_victims = 0
    for world, claimant in _cases(0, count=SMALL_CASES, is_small=True):
        prices = _prices(world)
        cover, every_set = (
            cheapest_cover(world, claimant.row, prices),
            best_victims(world, claimant.row, prices),
        )
        assert (cover is None) == (every_set is None)
        assert cover is None or every_set is None or cover == pytest.approx(every_set)
        with_victims += cover not in (None, (0, 0))
    assert with_victims > SMALL_CASES // 8
