"""Use that is over counts for whose turn it is, less and less, and for nothing else."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from math import log

import pytest

from service.admission.cycle import plan_cycle
from service.admission.past_use import Charge, PastUse
from service.admission.plan import Admission
from service.admission.resident import World
from service.admission.world import Changes, Configuration, Pool, Queue
from tests.builders import NOW, Group, after, cohort, gang, node, queue, role

HOUR = 3600.0
GPUS = 8


def charge(queue_id: int, gpu_seconds: float, *, at: float = 0) -> Charge:
    return Charge(queue_id=queue_id, resource="mx", amount_seconds=gpu_seconds, as_of=after(at))


def held(queue_id: int, gpus: int, *, seconds: float, at: float, half_life: float) -> Charge:
    """What the ledger says of it at its end."""
    return charge(queue_id, gpus * half_life / log(2) * (1 - 2 ** (-seconds / half_life)), at=at)


def world_of(*queues: Queue, groups: list[Group], half_life: float) -> World:
    world = World.empty(half_life_seconds=half_life)
    world.apply(
        Changes(
            configuration=Configuration(
                version=1,
                queues={each.id: each for each in queues},
                pools={1: Pool(id=1, name="p1", levels=("host",))},
                nodes={1: node(1, GPUS)},
                cohorts={1: cohort(1)},
            ),
            shapes={group.row.shape_id: group.shape for group in groups},
            pending={group.row.id: group.row for group in groups},
        )
    )
    return world


def test_what_holds_the_same_for_ever_comes_up_to_it() -> None:
    past = PastUse(HOUR)
    past.add([held(1, 4, seconds=100 * HOUR, at=0, half_life=HOUR)])
    assert past.averages(NOW) == {1: {"mx": pytest.approx(4)}}
    assert past.averages(after(2 * HOUR)) == {1: {"mx": pytest.approx(1)}}
    # A launcher's clock may be ahead.
    assert past.averages(after(-60)) == {1: {"mx": pytest.approx(4)}}
    assert past.averages(after(1e9)) == {1: {"mx": 0.0}}


def test_the_order_of_charges_does_not_matter() -> None:
    charges = [charge(1, 100.0 * number, at=number * 777 % 1000) for number in range(1, 30)]
    one, other = PastUse(HOUR), PastUse(HOUR)
    one.add(charges)
    other.add(reversed(charges))
    assert one.averages(after(5000))[1]["mx"] == pytest.approx(other.averages(after(5000))[1]["mx"])


def test_without_a_half_life_nothing_that_is_over_counts() -> None:
    past = PastUse(0)
    past.add([charge(1, 1e9)])
    assert past.averages(NOW) == {}


def fair(id_: int, **more: object) -> Queue:
    return queue(id_, cohort=1, nominal={"mx": GPUS // 2}, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("half_life", "first"), [(0.0, 1), (HOUR, 2)])
def test_who_used_much_waits_behind(half_life: float, first: int) -> None:
    whole = role(1, GPUS // 2)
    groups = [gang(1, whole, queue_id=1), gang(2, whole, queue_id=2, at=1)]
    groups += [gang(3, role(1, GPUS // 2, name="other"), queue_id=1, at=2)]
    world = world_of(fair(1), fair(2), groups=groups, half_life=half_life)
    world.past_use.add([charge(1, GPUS * HOUR)])
    admissions = plan_cycle(world, NOW).admissions
    assert [each.queue_id for each in admissions] == [first, 3 - first]


@pytest.mark.parametrize("weight", [0.0, 1e9])
def test_weights_at_their_bounds(weight: float) -> None:
    """The weight 0 is last and not never; against a very large one no past counts."""
    whole = role(1, GPUS // 2)
    groups = [gang(number, whole, queue_id=1 + number % 2, at=number) for number in (1, 2)]
    world = world_of(fair(1, weight=weight), fair(2), groups=groups, half_life=HOUR)
    world.past_use.add([charge(1 if weight else 2, GPUS * HOUR), charge(2, 60)])
    admissions = plan_cycle(world, NOW).admissions
    assert [each.queue_id for each in admissions] == ([1, 2] if weight else [2, 1])


def test_over_time_the_past_is_made_up_for_and_forgotten() -> None:
    """Two queues always have more to do than there is room. One held everything for a day before: for a
    half-life or so it gets less, and in the end both get the same."""
    half_life, step = 2 * HOUR, 600.0
    names = iter(range(1, 100_000))
    groups = [gang(next(names), queue_id=1 + number % 2) for number in range(2 * 40 * GPUS)]
    world = world_of(
        *(queue(number, cohort=1, nominal={"mx": 0}) for number in (1, 2)), groups=groups, half_life=half_life
    )
    whole = {1: cohort(1, nominal={"mx": GPUS})}
    configuration = world.configuration
    world.apply(
        Changes(
            configuration=Configuration(
                version=2,
                queues=configuration.queues,
                pools=configuration.pools,
                nodes=configuration.nodes,
                cohorts=whole,
            )
        )
    )
    world.past_use.add([held(1, GPUS, seconds=24 * HOUR, at=0, half_life=half_life)])
    got: list[Counter[int]] = []
    running: list[Admission] = []
    for number in range(1, 60):
        now = NOW + timedelta(seconds=step * number)
        world.apply(
            Changes(
                gone=frozenset(each.unit_id for each in running),
                charges={
                    (each.unit_id, 1): (
                        held(each.queue_id, 1, seconds=step, at=step * number, half_life=half_life),
                    )
                    for each in running
                },
            )
        )
        plan = plan_cycle(world, now)
        world.admit(plan.admissions, now)
        running = list(plan.admissions)
        got.append(Counter(each.queue_id for each in running))
    assert all(sum(each.values()) == GPUS for each in got[:40])
    early, late = (sum(part, Counter[int]()) for part in (got[:6], got[30:40]))
    assert early[2] > 4 * early[1]
    assert abs(late[1] - late[2]) <= GPUS
