"""Elastic groups among those that may give way: members of their surplus, or the whole of them, beside rigid
groups. Who gives way, and how much, is the cheapest of all choices."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, combinations, product
from math import prod

import pytest

from service.admission.nodes.query import ShapeQuery
from service.admission.policy import DEFAULT
from service.admission.preemption.candidates import Candidates
from service.admission.preemption.chooser import Chooser
from service.admission.preemption.preempt import MOST_EXACT
from service.admission.preemption.trial import Candidate, Trial
from service.admission.resident import World
from service.admission.world import Changes, PendingUnit, Queue
from service.domain.queue import PreemptWithin, Reclaim
from service.domain.shape import Sizing
from tests.builders import Group, Site, after, configuration, gang, node, queue, role, submitted
from tests.unit.admission.preemption_oracle import Cost
from tests.unit.admission.test_preemption_oracle import without_preemption
from tests.unit.admission.victim_costs import Figures, cost_of

ASKED_AT = after(1000)
BATCHES = 2
SITES = 400
CLAIMANTS = 2
#: With more choices a claimant is not asked.
MOST_CHOICES = 4000
_ENDLESS = 1 << 40


def _queue(rng: random.Random, queue_id: int, most: int) -> Queue:
    return queue(
        queue_id,
        cohort=1,
        nominal={"ma": rng.choice((0, 2, 4, rng.randint(0, most)))},
        borrowing={"ma": rng.randint(0, 6)} if rng.random() < 0.2 else None,
        weight=rng.choice((1, 1, 2)),
        preempt_within=rng.choice((PreemptWithin.NEVER, *[PreemptWithin.LOWER_PRIORITY] * 4)),
        reclaim=rng.choice((*Reclaim, Reclaim.ANY)),
    )


def _group(rng: random.Random, group_id: int) -> Group:
    is_elastic = rng.random() < 0.5
    count = rng.choice((2, 3, 4)) if is_elastic else rng.choice((1, 1, 2))
    shape = role(count, rng.choice((1, 1, 1, 2)), least=rng.randint(1, count - 1) if is_elastic else None)
    return gang(
        group_id,
        shape,
        sizing=Sizing.WHILE_RUNNING if is_elastic else None,
        queue_id=rng.choice((1, 1, 2, 3)),
        priority=rng.choice((0, 0, 0, 1, 2)),
        at=rng.randint(0, 3),
    )


def _full(rng: random.Random) -> World:
    sizes = [rng.choice((2, 3, 4, 4)) for _ in range(rng.randint(2, 4))]
    nodes = [
        node(number, gpus, model="ma", labels={"rack": rng.choice(("r1", "r2"))})
        for number, gpus in enumerate(sizes, start=1)
    ]
    queues = [_queue(rng, queue_id, sum(sizes) // 2) for queue_id in (1, 2, 3)]
    lent = sum(sizes) - sum((each.quota.nominal or {})["ma"] for each in queues)
    lender = queue(4, cohort=1, nominal={"ma": max(0, lent + rng.choice((0, 0, -2, 50)))})
    config, site = configuration(nodes, [*queues, lender], levels=("rack", "host")), Site()
    site.world.apply(Changes(configuration=without_preemption(config)))
    site.submit(*(_group(rng, group_id) for group_id in range(10, 30)))
    site.cycle()
    site.world.apply(Changes(gone=frozenset(site.world.pending)))
    aged = {
        unit.id: replace(
            unit,
            admitted_at=after(rng.choice((0, 300, 500, 900, rng.randint(0, 990)))),
            is_resizable=site.world.shapes[unit.shape_id].sizing is not None,
            is_preemptible=rng.random() < 0.97,
        )
        for unit in site.world.running.values()
    }
    site.world.apply(Changes(running=aged, configuration=replace(config, version=2)))
    return site.world


def _cases(first: int) -> Iterator[tuple[World, PendingUnit]]:
    for number in range(first, first + SITES // BATCHES):
        rng = random.Random(number)
        world = _full(rng)
        for group_id in range(1, CLAIMANTS + 1):
            claimant = gang(
                group_id,
                role(rng.randint(1, 3), rng.randint(1, 3)),
                priority=rng.choice((1, 3, 4, 4)),
                required=rng.choice((None, None, "rack", "host")),
            )
            world.apply(submitted(claimant))
            yield world, claimant.row
            world.apply(Changes(gone=frozenset([claimant.row.id])))


def _choices(candidates: Candidates, trial: Trial, query: ShapeQuery) -> list[list[tuple[Candidate, ...]]]:
    """By unit: nothing, some of its surplus, or the whole of it."""
    surplus: dict[int, list[Candidate]] = {}
    for each in candidates.of(trial.claimant, query, is_whole=False):
        if each.of is not None:
            surplus.setdefault(each.of.id, []).append(each)
    whole = {each.unit.id: each for each in candidates.of(trial.claimant, query, is_whole=True)}
    return [
        [
            (),
            *chain.from_iterable(combinations(of, size) for size in range(1, len(of) + 1)),
            *([(whole[unit_id],)] if unit_id in whole else []),
        ]
        for unit_id in sorted({*surplus, *whole})
        for of in [surplus.get(unit_id, [])]
    ]


def _cost(chosen: Sequence[Candidate]) -> Cost:
    return max(each.unit.priority for each in chosen), sum(each.cost for each in chosen) / 1000


def _least_cost(trial: Trial, choices: list[list[tuple[Candidate, ...]]]) -> Cost | None:
    """(0, 0) if nobody has to go, None if nobody makes room who may be taken."""
    if trial.place() is not None:
        return 0, 0
    sets = [[*chain.from_iterable(chosen)] for chosen in product(*choices)]
    for chosen in sorted((each for each in sets if each), key=_cost):
        trial.free(*chosen)
        is_possible = trial.place() is not None and trial.rights() is not None
        trial.reset()
        if is_possible:
            return _cost(chosen)
    return None


@pytest.mark.parametrize("batch", range(BATCHES))
def test_the_cheapest_of_surplus_and_whole_groups_gives_way(batch: int) -> None:
    figures = Figures()
    for world, row in _cases(batch * 100_000):
        candidates = Candidates(world, DEFAULT, ASKED_AT)
        query = world.capacity.query(row.shape_id, world.shapes[row.shape_id])
        claimant = candidates.claimant(row, {"ma": query.total.gpus})
        trial = Chooser(world, DEFAULT, tests=_ENDLESS, most_exact=0).trial(claimant, query)
        trial.tests_left = _ENDLESS
        choices = _choices(candidates, trial, query)
        if prod(map(len, choices)) <= MOST_CHOICES:
            best = _least_cost(trial, choices)
            found = cost_of(world, row, now=ASKED_AT, most_exact=MOST_EXACT)
            figures.add(found, best, case=row.public_id)
    print(figures)
    assert figures.several > SITES // BATCHES // 20
    assert figures.optimal >= figures.placed * 0.95
    assert figures.worst <= 1.5
