"""Whatever queues say of preemption, evictions come to an end: who gave way waits again, and after a while
nobody takes from anybody."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from service.admission.cycle import plan_cycle
from service.admission.resident import World
from service.admission.world import Changes, Cohort, Configuration, PendingUnit, Queue, RunningUnit
from service.domain.queue import Order, PreemptWithin, Quota, Reclaim
from tests.builders import Group, Site, after, cohort, configuration, gang, node, queue, role

CASES = 240
BATCHES = 4
#: Far more cycles than any of these sites needs; a cycle of evictions never ends.
MOST_CYCLES = 200
MODELS = ("ma", "mb")


def _cohorts(rng: random.Random) -> list[Cohort]:
    """Two cohorts, perhaps in a third, perhaps with amounts of their own."""
    top = 3 if rng.random() < 0.5 else None

    def quota() -> Quota:
        nominal = {model: rng.choice((0, 0, 2, 4)) for model in MODELS}
        lending = {"ma": rng.randint(0, 4)} if top and rng.random() < 0.3 else {}
        return Quota(nominal=nominal, lending=lending)

    lower = [
        replace(cohort(number), parent_id=top, weight=rng.choice((1, 1, 2)), quota=quota())
        for number in (1, 2)
    ]
    return [*lower, cohort(3)]


def _queue(rng: random.Random, queue_id: int) -> Queue:
    return queue(
        queue_id,
        order=rng.choice((Order.BEST_EFFORT, Order.BEST_EFFORT, Order.STRICT)),
        cohort=rng.choice((1, 1, 2)),
        nominal={model: rng.choice((0, 0, 1, 2, 3, 5)) for model in MODELS},
        borrowing={"ma": rng.randint(0, 3)} if rng.random() < 0.2 else None,
        weight=rng.choice((1, 1, 1, 0.5, 3, 0)),
        preempt_within=rng.choice(list(PreemptWithin)),
        reclaim=rng.choice((*Reclaim, Reclaim.ANY, Reclaim.FAIR_SHARE, Reclaim.FAIR_SHARE)),
    )


def _group(rng: random.Random, group_id: int) -> Group:
    roles = [
        role(
            rng.randint(1, 2), rng.choice((1, 1, 2, 3)), name=name, models=rng.choice(((), ("ma",), ("mb",)))
        )
        for name in rng.choice((["a"], ["a"], ["a", "b"]))
    ]
    fields = {"queue_id": rng.randint(1, 4), "priority": rng.randint(0, 2), "at": rng.randint(-9, 0)}
    made = gang(group_id, *roles, **fields)  # type: ignore[arg-type]
    return Group(replace(made.row, is_preemptible=rng.random() < 0.95), made.shape)


def _site(rng: random.Random) -> Site:
    nodes = [node(number, rng.randint(1, 4), model=rng.choice(MODELS)) for number in range(1, 5)]
    made = Site()
    config: Configuration = configuration(
        nodes, [_queue(rng, queue_id) for queue_id in range(1, 5)], cohorts=_cohorts(rng)
    )
    made.world.apply(Changes(configuration=config))
    return made


def _again(world: World, unit: RunningUnit, rows: dict[int, PendingUnit]) -> PendingUnit:
    """Waits again at its old place in the order; it had run."""
    row = rows[unit.id]
    return replace(row, attempt=unit.attempt + 1, version=row.version + 2)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_evictions_come_to_an_end(batch: int) -> None:
    evictions = longest = 0
    for number in range(batch * CASES // BATCHES, (batch + 1) * CASES // BATCHES):
        rng = random.Random(number)
        site = _site(rng)
        world, rows = site.world, {}
        arrivals = [_group(rng, group_id) for group_id in range(1, rng.randint(8, 30))]
        quiet = cycle = 0
        while quiet < 3:
            cycle += 1
            assert cycle < MOST_CYCLES, f"case {number}: evictions go on for ever"
            for group in [arrivals.pop() for _ in range(min(len(arrivals), rng.randint(1, 3)))]:
                site.submit(group)
                rows[group.row.id] = group.row
            now = after(60 * cycle)
            plan = plan_cycle(world, now)
            world.admit(plan.admissions, now)
            world.keep_claims(plan.claims_made, ended=plan.claims_ended)
            claimed = {claim.unit_id for claim in plan.claims_made}
            assert {eviction.receipt.claimant_id for eviction in plan.evictions} <= claimed
            # Those that give way are gone before the next cycle, or a few cycles later.
            leaving = [*world.leaving.values()]
            for eviction in plan.evictions:
                world.give_way(eviction.unit_id, now, preempted_at=(now,))
                leaving.append(world.running[eviction.unit_id])
            gone = {unit.id: unit for unit in leaving if rng.random() < 0.7}
            again = {unit.id: _again(world, unit, rows) for unit in gone.values()}
            rows.update(again)
            world.apply(Changes(pending=again))
            evictions += len(plan.evictions)
            is_quiet = not (plan.evictions or plan.admissions or plan.claims_made or arrivals or gone)
            quiet = quiet + 1 if is_quiet and not world.leaving else 0
        longest = max(longest, cycle)
        assert not world.claims, f"case {number}: somebody waits for nobody"
    print(f"{CASES // BATCHES} sites, {evictions} evictions, at most {longest} cycles until all was quiet")
    assert evictions > CASES // BATCHES // 2
