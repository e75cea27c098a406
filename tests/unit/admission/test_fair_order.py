"""Whose turn it is: shares down the tree of cohorts, nominal before borrowed, then priority and age."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from service.admission.cycle import plan_cycle
from service.admission.resident import World
from service.admission.world import Changes, Cohort, Configuration, Queue
from service.domain.queue import Order
from tests.builders import (
    NOW,
    Group,
    cohort,
    gang,
    independent,
    node,
    queue,
    role,
    site,
    submitted,
)
from tests.unit.admission.strategies import configurations, waiting

_MX4, _MX8 = {"mx": 4}, {"mx": 8}


def _singles(queue_id: int, count: int, *, at: float = 0) -> list[Group]:
    """Groups of one GPU, numbered from 100 times their queue."""
    return [gang(100 * queue_id + number, queue_id=queue_id, at=at) for number in range(count)]


def _admitted(
    *, nodes: int, queues: Iterable[Queue], groups: list[Group], cohorts: Iterable[Cohort] = ()
) -> dict[int, int]:
    """How many groups of each queue one cycle admits on nodes of one GPU."""
    made = site([node(number, 1) for number in range(1, nodes + 1)], queues, *groups, cohorts=cohorts)
    counts: dict[int, int] = {}
    for admission in made.cycle().admissions:
        counts[admission.queue_id] = counts.get(admission.queue_id, 0) + 1
    return counts


def test_queues_that_compete_get_equal_parts_whoever_came_first() -> None:
    counts = _admitted(nodes=6, queues=[queue(1), queue(2)], groups=[*_singles(1, 9), *_singles(2, 9, at=50)])
    assert counts == {1: 3, 2: 3}


def test_parts_follow_the_weights() -> None:
    queues = [queue(1, cohort=1, nominal={"mx": 6}, weight=2.0), queue(2, cohort=1, nominal={})]
    assert _admitted(nodes=6, queues=queues, groups=[*_singles(1, 9), *_singles(2, 9)]) == {1: 6}
    queues = [queue(1, weight=2.0), queue(2)]
    assert _admitted(nodes=6, queues=queues, groups=[*_singles(1, 9), *_singles(2, 9)]) == {1: 4, 2: 2}


def test_weight_0_is_last_and_not_never() -> None:
    queues = [queue(1, weight=0.0), queue(2)]
    assert _admitted(nodes=3, queues=queues, groups=[*_singles(1, 9), *_singles(2, 2)]) == {1: 1, 2: 2}


def test_a_very_large_weight_takes_all_that_it_asks_for() -> None:
    queues = [queue(1, weight=1e6), queue(2)]
    assert _admitted(nodes=5, queues=queues, groups=[*_singles(1, 4), *_singles(2, 9)]) == {1: 4, 2: 1}


def test_equal_shares_go_by_priority_and_then_by_age() -> None:
    groups = [gang(1, queue_id=1, at=0), gang(2, queue_id=2, at=1, priority=5), gang(3, queue_id=3, at=2)]
    made = site([node(1, 2)], [queue(1), queue(2), queue(3)], *groups)
    made.cycle()
    assert sorted(made.running()) == [1, 2]


def test_who_stays_within_its_nominal_quota_goes_before_who_must_borrow() -> None:
    queues = [queue(1, cohort=1, nominal={}), queue(2, cohort=1, nominal=_MX4)]
    groups = [*_singles(1, 9), *_singles(2, 3, at=50)]
    assert _admitted(nodes=4, queues=queues, groups=groups) == {1: 1, 2: 3}


def test_who_stays_within_it_goes_first_also_once_the_row_before_it_finds_no_room_any_more() -> None:
    """Group 2 would have to borrow and stands behind the other queue; what that one takes makes group 2 too
    large, and it is the turn of group 3."""
    queues = [queue(1, cohort=1, nominal={"mx": 2}), queue(2, cohort=1, nominal={}, weight=1e6)]
    made = site([node(1, 5)], queues, gang(1), cohorts=[cohort(1, nominal={"mx": 3})])
    made.cycle()
    made.submit(gang(2, role(gpus=4), at=1), gang(3, at=2), *_singles(2, 9))
    admitted = [admission.group_id for admission in made.cycle().admissions]
    assert admitted == [200, 3, 201, 202]


def test_of_several_models_those_within_the_nominal_quota_are_tried_first() -> None:
    nodes = [node(1, 4, model="ma"), node(2, 4, model="mb")]
    queues = [queue(1, cohort=1, nominal={"mb": 4}), queue(2, cohort=1, nominal={"ma": 4})]
    either = role(models=("ma", "mb"), gpus=4)
    made = site(nodes, queues, gang(1, either), gang(2, either))
    made.cycle()
    assert made.running() == {1: {"n2": 4}, 2: {"n1": 4}}


def test_cohorts_share_before_their_queues_do() -> None:
    """Two cohorts of one root: the one with two queues gets no more for that."""
    queues = [
        queue(1, cohort=1, nominal={}),
        queue(2, cohort=1, nominal={}),
        queue(3, cohort=2, nominal={}),
    ]
    cohorts = [cohort(1, parent=3), cohort(2, parent=3), cohort(3, nominal=_MX8)]
    groups = [*_singles(1, 9), *_singles(2, 9), *_singles(3, 9)]
    assert _admitted(nodes=8, queues=queues, groups=groups, cohorts=cohorts) == {1: 2, 2: 2, 3: 4}


def test_members_of_an_independent_group_take_turns_with_other_queues() -> None:
    groups = [independent(1, role(8), queue_id=1), independent(2, role(8), queue_id=2, at=50)]
    made = site([node(1, 8)], [queue(1), queue(2)], *groups)
    made.cycle()
    assert made.running() == {1: {"n1": 4}, 2: {"n1": 4}}


def test_a_group_of_many_members_takes_what_nobody_else_wants() -> None:
    made = site([node(1, 8)], [queue(1), queue(2)], independent(1, role(8), queue_id=1), gang(2, queue_id=2))
    made.cycle()
    assert made.running() == {1: {"n1": 7}, 2: {"n1": 1}}


def test_a_strict_queue_stops_at_its_blocked_head_and_others_go_on() -> None:
    queues = [queue(1, order=Order.STRICT), queue(2)]
    groups = [gang(1, role(gpus=4)), gang(2, role(gpus=8)), gang(3), gang(4, queue_id=2, at=50)]
    made = site([node(1, 8)], queues, *groups)
    made.cycle()
    assert sorted(made.running()) == [1, 4]


def test_what_a_cycle_charges_counts_for_the_cohort_at_once() -> None:
    queues = [
        queue(1, cohort=1, nominal={}),
        queue(2, cohort=1, nominal={}),
        queue(3, cohort=1, nominal=_MX4),
    ]
    groups = [*_singles(1, 9), *_singles(2, 9)]
    assert _admitted(nodes=8, queues=queues, groups=groups) == {1: 2, 2: 2}


@settings(max_examples=100)
@given(configurations(), waiting(), st.permutations(["x", "y"]))
def test_names_decide_nothing(config: Configuration, groups: list[Group], names: list[str]) -> None:
    renamed = replace(
        config,
        queues={key: replace(each, name=names[key - 1]) for key, each in config.queues.items()},
        cohorts={key: replace(each, name=names[key - 1]) for key, each in config.cohorts.items()},
    )
    plans = []
    for each in (config, renamed):
        world = World.empty()
        world.apply(Changes(configuration=each))
        world.apply(submitted(*groups))
        plans.append(plan_cycle(world, NOW).admissions)
    assert plans[0] == plans[1]
