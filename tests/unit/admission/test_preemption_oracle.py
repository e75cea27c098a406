"""Others give way exactly when an exhaustive search finds victims, and at a cost that is its own."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from service.admission.policy import DEFAULT
from service.admission.preemption.preempt import MOST_EXACT
from service.admission.preemption.price import price_of
from service.admission.resident import World
from service.admission.world import Changes, Configuration, Node, Queue
from service.domain.queue import PreemptWithin, Reclaim
from service.domain.shape import RoleShape
from tests.builders import Group, Site, after, configuration, gang, independent, node, queue, role, submitted
from tests.unit.admission.preemption_oracle import best_victims
from tests.unit.admission.victim_costs import Figures, cost_of

CASES = 10_000
BATCHES = 5
#: Each cluster is asked for several claimants, one after the other: to fill it takes most of the time.
CLAIMANTS = 5
#: The search for victims takes twice as long with each one more.
MOST_RUNNING = 9
MODELS = ("ma", "mb")
ASKED_AT = after(1000)


def _nodes(rng: random.Random) -> list[Node]:
    two_models = rng.random() < 0.3
    return [
        node(
            number,
            rng.randint(1, 4),
            model=rng.choice(MODELS) if two_models else "ma",
            labels={"rack": rng.choice(("r1", "r2"))},
            is_ready=rng.random() < 0.97,
        )
        for number in range(1, rng.randint(2, 4))
    ]


def _queues(rng: random.Random) -> list[Queue]:
    def one(queue_id: int) -> Queue:
        cohort = rng.choice((1, 1, 1, 1, 1, 1, 2, None))
        has_quota = cohort is not None or rng.random() < 0.5
        return queue(
            queue_id,
            cohort=cohort,
            nominal={model: rng.choice((0, 1, 2, 4, 6, 8)) for model in MODELS} if has_quota else None,
            borrowing={"ma": rng.randint(0, 4)} if cohort is not None and rng.random() < 0.2 else None,
            weight=rng.choice((1, 1, 1, 2, 0.5, 0)),
            preempt_within=rng.choice((PreemptWithin.NEVER, *[PreemptWithin.LOWER_PRIORITY] * 4)),
            reclaim=rng.choice((*Reclaim, Reclaim.ANY, Reclaim.FAIR_SHARE, Reclaim.ANY, Reclaim.FAIR_SHARE)),
        )

    return [one(queue_id) for queue_id in (1, 2, 3)]


def _role(rng: random.Random, name: str, most: int) -> RoleShape:
    models = rng.choice(((), (), ("ma",), ("mb", "ma")))
    return role(rng.randint(1, 2), rng.randint(1, most), name=name, models=models)


def _group(rng: random.Random, group_id: int, *, most: int) -> Group:
    queue_id, priority, at = rng.randint(1, 3), rng.randint(0, 3), rng.randint(0, 3)
    if rng.random() < 0.15:
        return independent(group_id, _role(rng, "each", most), queue_id=queue_id, priority=priority, at=at)
    roles = [_role(rng, f"r{number}", most) for number in range(rng.choice((1, 1, 1, 2)))]
    required = rng.choice((None, None, None, "rack", "host"))
    return gang(group_id, *roles, queue_id=queue_id, priority=priority, at=at, required=required)


def without_preemption(config: Configuration) -> Configuration:
    quiet = {
        key: replace(
            each,
            policy=replace(each.policy, preempt_within=PreemptWithin.NEVER, reclaim=Reclaim.NEVER),
        )
        for key, each in config.queues.items()
    }
    return replace(config, queues=quiet, version=1)


def _occupied(rng: random.Random, config: Configuration) -> World:
    """A cluster that is mostly full, of units of every age."""
    site = Site()
    site.world.apply(Changes(configuration=without_preemption(config)))
    site.submit(*(_group(rng, group_id, most=rng.choice((1, 1, 2))) for group_id in range(10, 22)))
    site.cycle()
    site.world.apply(Changes(gone=frozenset(site.world.pending)))
    aged = {
        unit.id: replace(
            unit, admitted_at=after(rng.choice((0, 300, 500, 900))), is_preemptible=rng.random() < 0.93
        )
        for unit in site.world.running.values()
    }
    site.world.apply(Changes(running=aged, configuration=replace(config, version=2)))
    return site.world


def occupied_case(number: int) -> tuple[World, list[Group]] | None:
    rng = random.Random(number)
    config = configuration(_nodes(rng), _queues(rng), levels=("rack", "host"))
    world = _occupied(rng, config)
    heads = [_head(rng, group_id) for group_id in range(1, CLAIMANTS + 1)]
    return (world, heads) if len(world.running) <= MOST_RUNNING else None


def _head(rng: random.Random, group_id: int) -> Group:
    head = _group(rng, group_id, most=3)
    row = replace(head.row, priority=rng.choice((0, 1, 2, 3, 4, 4)), is_preemptible=rng.random() < 0.9)
    return Group(row, head.shape)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_victims_are_found_whenever_there_are_some(batch: int) -> None:
    """Both by weighing every set, as few candidates are, and by giving back, as many are."""
    exact, given_back, asked, number = Figures(), Figures(), 0, batch * 1_000_000
    while asked < CASES // BATCHES:
        number += 1
        case = occupied_case(number)
        if case is None:
            continue
        world, heads = case
        prices = {unit.id: price_of(unit, DEFAULT, ASKED_AT) for unit in world.running.values()}
        for head in heads:
            asked += 1
            world.apply(submitted(head))
            best = best_victims(world, head.row, prices)
            for figures, most_exact in ((exact, MOST_EXACT), (given_back, 0)):
                found = cost_of(world, head.row, now=ASKED_AT, most_exact=most_exact)
                figures.add(found, best, case=f"case {number}")
            world.apply(Changes(gone=frozenset([head.row.id])))
    print(f"{asked} cases: {exact}; in orders and given back: {given_back}")
    assert exact.placed > asked * 0.06
    assert exact.several > exact.placed * 0.1
    for figures in (exact, given_back):
        assert figures.optimal >= figures.placed * 0.95
        assert figures.worst <= 1.5
