"""The most that one user, or one group, may hold in a queue: kept within a cycle and over many, and what is
over it blocks nobody else."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from service.admission.world import Changes
from service.domain.queue import Order
from service.domain.resources import CPUS, MEMORY
from service.domain.shape import Sizing
from tests.builders import Group, Site, configuration, gang, independent, node, queue, role, site


def of(owner: str, group: Group) -> Group:
    return Group(replace(group.row, owner=f"t/{owner}"), group.shape)


def held(at: Site, resource: str = "mx") -> Counter[str]:
    found: Counter[str] = Counter()
    for unit in at.world.running.values():
        found[unit.owner.removeprefix("t/")] += unit.usage.get(resource, 0)
    return found


def groups_of(at: Site) -> list[int]:
    return sorted(unit.group_id for unit in at.world.running.values())


@pytest.mark.parametrize("order", list(Order))
def test_a_user_stops_at_the_limit_and_others_go_on(order: Order) -> None:
    """Rows of one shape, so of one class; also in a strict queue, whose head is none that may not start."""
    at = site(queues=[queue(order=order, user_limit={"mx": 2})], nodes=[node(1)])
    at.submit(*(of("alice", gang(number)) for number in range(1, 6)))
    at.submit(of("bob", gang(6)), of("carol", gang(7, role(3))), of("bob", gang(8)), of("bob", gang(9)))
    at.cycle()
    assert groups_of(at) == [1, 2, 6, 8]
    at.cycle(1)
    assert groups_of(at) == [1, 2, 6, 8]
    at.end(1)
    at.cycle(2)
    assert groups_of(at) == [2, 3, 6, 8]


def test_a_limit_of_cpus_and_of_memory() -> None:
    for limit in ({CPUS: 4_000}, {MEMORY: 4 * 1024}):
        at = site(queues=[queue(user_limit=limit)], nodes=[node(1)])
        at.submit(of("alice", gang(1, role(3))), of("alice", gang(2, role(2))), of("alice", gang(3)))
        at.cycle()
        assert groups_of(at) == [1, 3]


def test_a_user_takes_another_model_once_one_is_used_up() -> None:
    at = site(queues=[queue(user_limit={"mx": 1})], nodes=[node(1, 2), node(2, 4, model="my")])
    any_model = role(models=("mx", "my"))
    at.submit(*(of("alice", gang(number, any_model)) for number in (1, 2, 3)))
    at.submit(of("alice", gang(4)), of("bob", gang(5)))
    at.cycle()
    assert held(at)["alice"] == 1
    assert {1, 2, 3, 5} <= set(groups_of(at))
    # Where the other model is not free, who may take none blocks no one else.
    at.submit(*(of("carol", gang(10 + number, role(models=("my",)))) for number in range(4)))
    at.submit(of("alice", gang(20, any_model)), of("dan", gang(21, any_model)))
    at.end(5)
    at.cycle(1)
    assert 21 in groups_of(at)
    assert 20 not in groups_of(at)


def test_a_group_of_many_units_stops_at_its_limit() -> None:
    at = site(queues=[queue(group_limit={"mx": 3})], nodes=[node(1)])
    at.submit(
        of("alice", independent(1, role(10))), of("alice", independent(2, role(10))), of("bob", gang(3))
    )
    at.cycle()
    assert Counter(groups_of(at)) == {1: 3, 2: 3, 3: 1}
    at.cycle(1)
    assert Counter(groups_of(at)) == {1: 3, 2: 3, 3: 1}


def test_limits_that_were_lowered_evict_nobody() -> None:
    nodes = [node(1)]
    at = site(queues=[queue(user_limit={"mx": 6})], nodes=nodes)
    at.submit(*(of("alice", gang(number)) for number in range(1, 10)))
    at.cycle()
    assert held(at)["alice"] == 6
    lowered = configuration(nodes, [queue(user_limit={"mx": 2})], version=2)
    at.world.apply(Changes(configuration=lowered))
    assert at.cycle(1).evictions == ()
    assert held(at)["alice"] == 6
    at.end(1, 2, 3, 4)
    at.cycle(2)
    assert held(at)["alice"] == 2
    at.end(5)
    at.cycle(3)
    assert held(at)["alice"] == 2


@pytest.mark.parametrize("limits", [{"user_limit": {"mx": 5}}, {"group_limit": {CPUS: 5_000}}])
def test_an_elastic_group_starts_and_grows_within_the_limits(limits: dict[str, Any]) -> None:
    at = site(queues=[queue(**limits)], nodes=[node(1)])
    at.submit(of("bob", gang(1, role(5))))
    at.cycle()
    at.submit(of("alice", gang(2, role(8, least=2), sizing=Sizing.WHILE_RUNNING)))
    at.cycle(1)
    assert held(at)["alice"] == 3
    at.settle(2)
    at.end(1)
    for second in (1000, 2000):
        at.cycle(second)
        at.settle(2)
        assert held(at)["alice"] == 5
    at = site(queues=[queue(**limits)], nodes=[node(1)])
    at.submit(of("alice", gang(2, role(8, least=2), sizing=Sizing.WHILE_RUNNING)))
    at.cycle()
    assert held(at)["alice"] == 5


def test_queues_limit_each_for_itself() -> None:
    at = site(
        queues=[queue(1, user_limit={"mx": 1}), queue(2), queue(3, user_limit={"mx": 2})], nodes=[node(1)]
    )
    at.submit(*(of("alice", gang(number, queue_id=1 + number % 3)) for number in range(1, 13)))
    at.cycle()
    assert Counter(unit.queue_id for unit in at.world.running.values()) == {1: 1, 2: 4, 3: 2}


@pytest.mark.parametrize("seed", range(20))
def test_no_user_and_no_group_is_ever_over_and_nobody_waits_for_another(seed: int) -> None:
    draw = random.Random(seed)
    users, most, each = ("alice", "bob", "carol"), draw.randint(2, 5), draw.randint(1, 3)
    at = site(
        queues=[queue(order=draw.choice(list(Order)), user_limit={"mx": most}, group_limit={"mx": each})],
        nodes=[node(1, 16)],
    )
    ids = iter(range(1, 1000))
    for second in range(30):
        at.submit(*_some(draw, ids, users))
        live = sorted(
            {unit.group_id for unit in at.world.running.values() if at.world.shapes[unit.shape_id].is_gang}
        )
        at.end(*(group_id for group_id in live if draw.random() < 0.3))
        at.cycle(second)
        by_user = held(at)
        assert all(amount <= most for amount in by_user.values())
        assert max(Counter(groups_of(at)).values(), default=0) <= each
        # Places for one more are always there, so whoever has room and a single GPU to ask for got it.
        free = 16 - sum(by_user.values())
        waits = {
            row.owner.removeprefix("t/")
            for row in at.world.pending.values()
            if at.world.shapes[row.shape_id].is_gang
        }
        assert not (free and [user for user in waits if by_user[user] < most])


def _some(draw: random.Random, ids: Iterable[int], users: tuple[str, ...]) -> list[Group]:
    made = []
    for _ in range(draw.randint(0, 4)):
        group_id = next(iter(ids))
        group = gang(group_id) if draw.random() < 0.7 else independent(group_id, role(draw.randint(1, 6)))
        made.append(of(draw.choice(users), group))
    return made
