"""A group that would rather wait for one model than take another at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.admission.cycle import plan_cycle
from service.admission.plan import Plan
from service.admission.resident import World
from service.admission.waiting.fallback import awaited_by
from service.admission.waiting.terms import at_stage_id, stored_shape_id, whole_id
from service.admission.world import Changes, Node
from service.domain.queue import Order, QueuePolicy
from service.domain.reasons import Code
from tests.builders import (
    NOW,
    Group,
    Site,
    after,
    configuration,
    gang,
    independent,
    node,
    queue,
    role,
    site,
)

_FAST, _SLOW = node(1, 4, model="fast"), node(2, 4, model="slow")


def _group(
    group_id: int, models: tuple[str, ...] = ("fast", "slow"), *, fallback: int = 60, at: float = 0
) -> Group:
    return gang(group_id, role(1, 4, models=models, fallback=fallback), at=at)


def _busy(*nodes: Node) -> Site:
    """The fast node is taken by group 1, then group 2 is there, at second 0, which would rather have that."""
    at = site(nodes or (_FAST, _SLOW), [queue()], gang(1, role(1, 4, models=["fast"])))
    assert at.cycle().admissions
    at.submit(_group(2))
    return at


def _nodes(plan: Plan) -> list[int]:
    return [place.node_id for admission in plan.admissions for place in admission.places]


def _codes(plan: Plan) -> list[Code]:
    (verdict,) = plan.queues[1].verdicts
    return [blocker.code for blocker in verdict]


def test_without_waiting_the_first_that_has_room_is_taken_at_once() -> None:
    at = site([_FAST, _SLOW], [queue()], gang(1, role(1, 4, models=["fast"])))
    at.cycle()
    at.submit(_group(2, fallback=0))
    assert _nodes(at.cycle()) == [2]


def test_it_waits_for_its_first_model_and_takes_the_second_when_its_time_is_over() -> None:
    at = _busy()
    plan = at.cycle(59.999)
    assert (_nodes(plan), _codes(plan)) == ([], [Code.INSUFFICIENT_GPUS])
    assert at.world.next_wake(after(0)) == after(60)
    assert _nodes(at.cycle(60)) == [2]
    assert at.world.next_wake(after(60)) is None


def test_what_is_told_names_the_model_that_it_waits_for_alone() -> None:
    at = _busy()
    ((blocker,),) = at.cycle(1).queues[1].verdicts
    assert blocker.scope["models"] == "fast"


def test_if_its_first_model_is_free_in_time_it_gets_that() -> None:
    at = _busy()
    at.cycle(30)
    at.end(1)
    assert _nodes(at.cycle(31)) == [1]


def test_after_its_time_the_first_model_is_still_the_first() -> None:
    at = _busy()
    at.end(1)
    assert _nodes(at.cycle(100)) == [1]


def test_each_further_model_comes_after_as_long_again() -> None:
    third = node(3, 4, model="slowest")
    at = site([_FAST, third], [queue()], gang(1, role(1, 4, models=["fast"])))
    at.cycle()
    at.submit(_group(2, ("fast", "slow", "slowest")))
    assert at.world.next_wake(after(0)) == after(60)
    assert _nodes(at.cycle(60)) == _nodes(at.cycle(119)) == []
    assert at.world.next_wake(after(60)) == after(120)
    assert _nodes(at.cycle(120)) == [3]


def test_time_runs_from_when_it_could_have_been_admitted() -> None:
    at = _busy()
    row = replace(at.world.pending[2 << 20], waiting_since=after(40), version=2)
    at.world.apply(Changes(pending={row.id: row}))
    assert at.world.next_wake(after(0)) == after(100)
    assert _nodes(at.cycle(99)) == []
    assert _nodes(at.cycle(100)) == [2]


def test_groups_of_one_shape_have_each_their_own_time() -> None:
    at = _busy()
    at.submit(_group(3, at=50))
    assert _nodes(at.cycle(60)) == [2]
    at.end(2)
    assert _nodes(at.cycle(109)) == []
    assert _nodes(at.cycle(110)) == [2]


def test_a_clock_that_goes_back_takes_the_model_back() -> None:
    at = _busy(_FAST)
    assert _codes(at.cycle(60)) == [Code.INSUFFICIENT_GPUS]
    at.cycle(0)
    assert at.world == _fresh(at, 0)


def test_a_group_that_runs_has_the_shape_that_was_submitted() -> None:
    at = site([_FAST, _SLOW], [queue()], _group(1))
    (admission,) = at.cycle(0).admissions
    assert (
        at.world.running[admission.unit_id].shape_id
        == admission.shape_id
        == stored_shape_id(admission.shape_id)
    )


def test_members_that_are_useful_alone_wait_each_for_itself() -> None:
    at = site([_FAST, _SLOW], [queue()], independent(1, role(8, 1, models=["fast", "slow"], fallback=60)))
    assert _nodes(at.cycle(0)) == [1] * 4
    assert _nodes(at.cycle(60)) == [2] * 4


def test_an_allowed_model_is_not_waited_for_behind_one_that_the_queue_may_not_use() -> None:
    policy = QueuePolicy(flavors=("slow",))
    at = site([_FAST, _SLOW], [replace(queue(), policy=policy)], _group(1))
    assert at.world.next_wake(after(0)) is None
    assert _nodes(at.cycle(0)) == [2]


def test_other_terms_of_the_queue_count_at_once() -> None:
    at = _busy()
    at.cycle(1)
    for flavors, wake in ((("slow", "fast"), after(60)), (("slow",), None), (None, after(60))):
        policy = QueuePolicy(flavors=flavors)
        version = at.world.configuration.version + 1
        at.world.apply(
            Changes(
                configuration=configuration(
                    [_FAST, _SLOW], [replace(queue(), policy=policy)], version=version
                )
            )
        )
        assert at.world.next_wake(after(1)) == wake
    assert _nodes(at.cycle(2)) == []


def test_the_models_that_are_considered_are_those_of_the_new_terms() -> None:
    fast, slow, third = _FAST, _SLOW, node(3, 4, model="third")
    at = site(
        [fast, slow, third],
        [replace(queue(), policy=QueuePolicy(flavors=("fast", "slow", "third")))],
        gang(1, role(1, 4, models=["fast"])),
    )
    at.cycle()
    at.submit(_group(2, ("fast", "slow", "third")))
    assert _nodes(at.cycle(1)) == []
    policy = QueuePolicy(flavors=("slow", "third"))
    version = at.world.configuration.version + 1
    nodes = [fast, slow, third]
    at.world.apply(
        Changes(configuration=configuration(nodes, [replace(queue(), policy=policy)], version=version))
    )
    assert _nodes(at.cycle(2)) == [2]


def test_a_group_that_only_its_second_model_could_hold_is_not_told_that_it_never_fits() -> None:
    at = site([_SLOW], [queue()], _group(1))
    assert _codes(at.cycle(0)) == [Code.NO_MATCHING_FLAVOR]
    assert _nodes(at.cycle(60)) == [2]


def test_a_claim_on_its_first_model_ends_when_it_takes_the_second() -> None:
    runs = gang(1, role(1, 4, models=["fast"]))
    runs = Group(replace(runs.row, time_limit_seconds=500), runs.shape)
    at = site([_FAST, _SLOW], [queue()], runs)
    at.cycle()
    at.submit(_group(2))
    (claim,) = at.cycle(1).claims_made
    assert (claim.unit_id, {place.node_id for place in claim.places}) == (2 << 20, {1})
    at.world.keep_claims([claim], ended=())
    assert _nodes(at.cycle(59)) == []
    plan = plan_cycle(at.world, after(60))
    assert _nodes(plan) == [2]
    assert plan.claims_ended == frozenset({2 << 20})


def test_in_a_strict_queue_those_behind_wait_with_it() -> None:
    at = site([_FAST, _SLOW], [queue(order=Order.STRICT)], gang(1, role(1, 4, models=["fast"])))
    at.cycle()
    at.submit(_group(2), gang(3, role(1, 1)))
    assert _nodes(at.cycle(1)) == []
    assert _nodes(at.cycle(60)) == [2]


def test_what_is_to_come_next_is_told_by_role() -> None:
    shape = _group(1, ("fast", "slow", "slowest")).shape
    (first,) = awaited_by(shape, NOW, after(59))
    assert (first.role, first.models, first.until, first.then) == ("worker", ("fast",), after(60), "slow")
    (second,) = awaited_by(shape, NOW, after(60))
    assert (second.models, second.until, second.then) == (("fast", "slow"), after(120), "slowest")
    assert list(awaited_by(shape, NOW, after(120))) == []


@pytest.mark.parametrize("whole", [1, 2**29 - 1, -((5 << 31) | 7), -(((2**29 - 1) << 31) | (2**31 - 1))])
@pytest.mark.parametrize("stage", [0, 3, 6])
def test_numbers_of_shapes_lead_back(whole: int, stage: int) -> None:
    number = at_stage_id(whole, stage)
    assert -(2**63) <= number < 0
    assert number != whole == whole_id(number) == whole_id(whole)
    assert stored_shape_id(number) == stored_shape_id(whole)


def _fresh(at: Site, seconds: float) -> World:
    fresh = World.empty()
    world = at.world
    rows = {row.id: replace(row, shape_id=stored_shape_id(row.shape_id)) for row in world.pending.values()}
    fresh.apply(
        Changes(
            configuration=world.configuration,
            shapes={shape_id: shape for shape_id, shape in world.shapes.items() if shape_id > 0},
            pending=rows,
            running=world.running,
        )
    )
    assert plan_cycle(fresh, after(seconds)) == plan_cycle(world, after(seconds))
    return fresh
