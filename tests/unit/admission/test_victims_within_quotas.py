"""Victims that are taken both for places and for quota: where own nominal quota, borrowing limits, and what
the cohort has left bind, of one model or two. They are found whenever there are some, and at a cost near the
least."""

from __future__ import annotations

import random
from collections import Counter
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
from tests.unit.admission.test_preemption_oracle import without_preemption
from tests.unit.admission.victim_costs import Figures, cost_of

ASKED_AT = after(1000)
BATCHES = 2
SITES = 300
CLAIMANTS = 3
MODELS = ("ma", "mb")


def _configuration(rng: random.Random) -> Configuration:
    """Queues 1 to 3 hold what they have, and what the fourth lends, which is often too little."""
    models = MODELS if rng.random() < 0.3 else MODELS[:1]
    nodes = [
        node(
            number,
            rng.choice((2, 4, 4, 6, 8)),
            model=models[number % len(models)],
            labels={"rack": rng.choice(("r1", "r2"))},
        )
        for number in range(1, rng.randint(4, 7))
    ]
    whole = Counter(device.model for each in nodes for device in each.devices)
    queues = [_queue(rng, queue_id, whole) for queue_id in (1, 2, 3)]
    lends = {
        model: max(0, whole[model] - sum((each.quota.nominal or {})[model] for each in queues))
        for model in models
    }
    more = rng.choice((-4, -2, -1, 0, 0, 0, 10, 100))
    lender = queue(4, cohort=1, nominal={model: max(0, amount + more) for model, amount in lends.items()})
    return configuration(nodes, [*queues, lender], levels=("rack", "host"))


def _queue(rng: random.Random, queue_id: int, whole: Counter[str]) -> Queue:
    reclaim = [Reclaim.NEVER, Reclaim.LOWER_PRIORITY, Reclaim.ANY, Reclaim.ANY]
    if len(whole) == 1:
        reclaim.append(Reclaim.FAIR_SHARE)
    return queue(
        queue_id,
        cohort=1,
        nominal={
            model: rng.choice((0, 2, 4, rng.randint(0, gpus // 3), rng.randint(0, 2 * gpus // 3)))
            for model, gpus in whole.items()
        },
        borrowing={model: rng.randint(0, 8) for model in whole} if rng.random() < 0.3 else None,
        weight=rng.choice((1, 1, 2)),
        preempt_within=rng.choice((PreemptWithin.NEVER, *[PreemptWithin.LOWER_PRIORITY] * 4)),
        reclaim=rng.choice(reclaim),
    )


def _models(config: Configuration) -> list[str]:
    return sorted({each.devices[0].model for each in config.nodes.values()})


def _full(rng: random.Random, config: Configuration) -> World:
    models, site = _models(config), Site()
    site.world.apply(Changes(configuration=without_preemption(config)))
    for group_id in range(10, 60):
        shape = role(
            rng.choice((1, 1, 1, 1, 2)), rng.choice((1, 1, 1, 1, 2, 2, 4)), models=(rng.choice(models),)
        )
        queue_id, priority = rng.choice((1, 1, 2, 3)), rng.choice((0, 0, 0, 1, 2))
        site.submit(gang(group_id, shape, queue_id=queue_id, priority=priority, at=rng.randint(0, 3)))
    site.cycle()
    ended = [unit_id for unit_id in site.world.running if rng.random() < 0.08]
    site.world.apply(Changes(gone=frozenset([*site.world.pending, *ended])))
    aged = {
        unit.id: replace(
            unit,
            admitted_at=after(rng.choice((0, 200, 500, 900, 950, rng.randint(0, 999)))),
            is_preemptible=rng.random() < 0.97,
        )
        for unit in site.world.running.values()
    }
    site.world.apply(Changes(running=aged, configuration=replace(config, version=2)))
    return site.world


def _claimant(rng: random.Random, group_id: int, models: list[str]) -> Group:
    sizes = [(rng.randint(1, 3), 4)] if rng.random() < 0.7 else [(rng.randint(1, 2), 3)] * 2
    roles = [
        role(count, rng.randint(1, most), name=f"r{number}", models=rng.choice(((), (rng.choice(models),))))
        for number, (count, most) in enumerate(sizes)
    ]
    made = gang(
        group_id,
        *roles,
        priority=rng.choice((1, 3, 4, 4, 4)),
        required=rng.choice((None, None, "rack", "host")),
    )
    return Group(replace(made.row, is_preemptible=rng.random() < 0.9), made.shape)


def _cases(first: int) -> Iterator[tuple[World, Group]]:
    for number in range(first, first + SITES // BATCHES):
        rng = random.Random(number)
        config = _configuration(rng)
        world = _full(rng, config)
        for group_id in range(1, CLAIMANTS + 1):
            claimant = _claimant(rng, group_id, _models(config))
            world.apply(submitted(claimant))
            yield world, claimant
            world.apply(Changes(gone=frozenset([claimant.row.id])))


def _lacks_quota(world: World, claimant: Group) -> bool:
    """On whichever model."""
    needs, models = claimant.shape.total().gpus, _models(world.configuration)
    return all((world.quota.available(1, model) or 0) < needs for model in models)


@pytest.mark.parametrize("most_exact", [MOST_EXACT, 0])
@pytest.mark.parametrize("batch", range(BATCHES))
def test_victims_are_found_where_quotas_bind(batch: int, most_exact: int) -> None:
    """Both by weighing every set, where they are few, and by giving back."""
    figures, lacking, most = Figures(), 0, 0
    for world, claimant in _cases(batch * 100_000):
        prices = {unit.id: price_of(unit, DEFAULT, ASKED_AT) for unit in world.running.values()}
        best = cheapest_cover(world, claimant.row, prices)
        found = cost_of(world, claimant.row, now=ASKED_AT, most_exact=most_exact)
        figures.add(found, best, case=f"{claimant.row.public_id} of a site")
        lacking += found is not None and _lacks_quota(world, claimant)
        most = max(most, len(world.running))
    print(f"up to {most} candidates, {lacking} times for quota too: {figures}")
    assert lacking > SITES // BATCHES // 5
    assert figures.several > SITES // BATCHES // 3
    assert figures.optimal >= figures.placed * 0.95
    assert figures.worst <= 1.5


def test_where_places_are_free_those_go_who_cost_least_wherever_they_run() -> None:
    """Three GPUs of quota are missing, and a host has three free, where nobody runs: of more candidates than
    are weighed the cheapest run on two others."""
    sizes = {1: (5, "r1"), 2: (5, "r1"), 3: (5, "r1"), 4: (3, "r2")}
    nodes = [node(number, gpus, model="ma", labels={"rack": rack}) for number, (gpus, rack) in sizes.items()]
    within = queue(1, nominal={"ma": 15}, preempt_within=PreemptWithin.LOWER_PRIORITY)
    made = Site()
    made.world.apply(Changes(configuration=configuration(nodes, [within])))
    made.submit(*(gang(group_id, role(labels={"rack": "r1"})) for group_id in range(10, 25)))
    made.cycle()
    first, second, *_, last = sorted(made.world.running.values(), key=lambda unit: unit.places[0].node_id)
    cheap = {unit.id: replace(unit, admitted_at=after(900)) for unit in (first, second, last)}
    claimant = gang(1, role(1, 3), priority=5, required="host")
    made.world.apply(Changes(running=cheap))
    made.submit(claimant)
    found = cost_of(made.world, claimant.row, now=ASKED_AT, most_exact=MOST_EXACT)
    assert found == ((0, 3 * (100 + DEFAULT.restart_cost_seconds)), 3)
