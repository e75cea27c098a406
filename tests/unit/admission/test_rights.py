"""By what right units may be taken when others are gone: told from numbers, as on a tree that does not hold
them."""

from __future__ import annotations

import random
from dataclasses import replace

from service.admission.quota.entitlement import Claimant, Rights
from service.admission.quota.tree import QuotaTree
from service.admission.world import Configuration, Queue, RunningUnit
from service.domain.preemption import Entitlement
from service.domain.queue import PreemptWithin, Reclaim
from service.domain.resources import CPUS
from tests.builders import NOW, cohort, configuration, gang, node, queue

CASES = 600
RESOURCES = ("ma", "mb", CPUS)


def _queue(rng: random.Random, queue_id: int) -> Queue:
    return queue(
        queue_id,
        cohort=rng.choice((1, 1, 2)),
        nominal={each: rng.randint(0, 4) for each in RESOURCES if each != CPUS or rng.random() < 0.3},
        weight=rng.choice((0, 0.5, 1, 1, 2)),
        preempt_within=rng.choice(list(PreemptWithin)),
        reclaim=rng.choice((*Reclaim, Reclaim.FAIR_SHARE)),
    )


def _configuration(rng: random.Random) -> Configuration:
    cohorts = [
        replace(cohort(number, parent=above, weight=rng.choice((1, 2))))
        for number, above in ((1, rng.choice((None, 3))), (2, 3), (3, None))
    ]
    queues = [_queue(rng, queue_id) for queue_id in (1, 2, 3, 4)]
    return configuration([node(1, 8, model="ma"), node(2, 8, model="mb")], queues, cohorts=cohorts)


def _unit(rng: random.Random, unit_id: int) -> RunningUnit:
    return RunningUnit(
        id=unit_id,
        group_id=unit_id,
        public_id=f"g{unit_id}",
        queue_id=rng.randint(1, 4),
        shape_id=1,
        attempt=1,
        revision=1,
        places=(),
        usage={each: rng.randint(0, 3) for each in RESOURCES},
        admitted_at=NOW,
        submitted_at=NOW,
        priority=rng.randint(0, 2),
        is_preemptible=rng.random() < 0.9,
    )


def _used(units: list[RunningUnit]) -> dict[int, dict[str, int]]:
    used: dict[int, dict[str, int]] = {}
    for unit in units:
        held = used.setdefault(unit.queue_id, {})
        for resource, amount in unit.usage.items():
            held[resource] = held.get(resource, 0) + amount
    return used


def test_rights_are_those_on_a_tree_without_who_is_gone() -> None:
    found: dict[Entitlement | None, int] = {}
    for seed in range(CASES):
        rng = random.Random(seed)
        config = _configuration(rng)
        units = [_unit(rng, unit_id) for unit_id in range(10, 20)]
        gone, left = units[: (count := rng.randint(0, 5))], units[count:]
        claimant = Claimant(
            row=replace(gang(1).row, priority=rng.randint(0, 3)),
            queue=config.queues[1],
            usage={each: rng.randint(0, 3) for each in RESOURCES},
            spared=frozenset({rng.randint(10, 20)}),
            is_patient=rng.random() < 0.5,
        )
        rights = Rights(claimant, QuotaTree(config, _used(units)))
        without = Rights(claimant, QuotaTree(config, _used(left)))
        for unit in gone:
            rights.take(unit)
        assert rights.is_within_nominal() == without.is_within_nominal()
        for unit in left:
            assert rights.to(unit) == without.to(unit)
            found[rights.to(unit)] = found.get(rights.to(unit), 0) + 1
        for unit in gone:
            rights.put_back(unit)
        fresh = Rights(claimant, QuotaTree(config, _used(units)))
        assert [rights.to(unit) for unit in units] == [fresh.to(unit) for unit in units]
    print(found)
    assert min(found[right] for right in (*Entitlement, None)) > CASES // 20
