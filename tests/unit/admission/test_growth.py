"""Running elastic groups: what they grow into, what they give up, and what they are told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.admission.cycle import plan_cycle
from service.admission.elastic.surplus import shrink, surplus_of
from service.admission.plan import Plan, Receipt, Shares
from service.admission.policy import DEFAULT
from service.admission.quota.book import QuotaBook
from service.admission.world import Changes, PendingUnit, Queue
from service.domain.claim import ClaimCause
from service.domain.node import Place
from service.domain.preemption import Entitlement
from service.domain.queue import PreemptWithin, Reclaim, Stop
from service.domain.reasons import Code
from service.domain.resources import CPUS, MEMORY
from service.domain.shape import RoleShape, Sizing
from tests.builders import Group, Site, after, configuration, gang, node, queue, role, site

AT_START, WHILE_RUNNING = Sizing.AT_START, Sizing.WHILE_RUNNING


def elastic(
    group_id: int, *roles: RoleShape, sizing: Sizing = WHILE_RUNNING, queue_id: int = 1, priority: int = 0
) -> Group:
    return gang(group_id, *roles, sizing=sizing, queue_id=queue_id, priority=priority)


def grown(plan: Plan) -> dict[int, int]:
    """Members that each group gets."""
    return {resize.unit_id >> 20: len(resize.added) for resize in plan.resizes}


def why(made: Site, group_id: int) -> list[Code]:
    """What keeps a running group from more members."""
    assert made.plan is not None
    verdict = made.plan.queues[1]
    number = dict(verdict.growing).get(group_id)
    return [] if number is None else [blocker.code for blocker in verdict.verdicts[number]]


def small(*groups: Group) -> Site:
    """An elastic group of up to six runs with four members, all that the node has room for."""
    made = site([node(1, 4)], [], elastic(1, role(6, least=2)), *groups)
    made.cycle()
    made.settle(1)
    return made


def configure(made: Site, gpus: int, *queues: Queue) -> None:
    """The node has so many GPUs from now on."""
    before = made.world.configuration
    known = queues or tuple(before.queues.values())
    changed = configuration([node(1, gpus)], known, version=before.version + 1)
    made.world.apply(Changes(configuration=changed))


def test_it_grows_into_free_room_up_to_its_count() -> None:
    made = small()
    configure(made, 8)
    plan = made.cycle(10)
    (resize,) = plan.resizes
    assert (resize.revision, len(resize.places), len(resize.added), resize.dropped) == (2, 6, 2, ())
    assert resize.usage == {"mx": 6, CPUS: 6000, MEMORY: 6 * 1024}
    assert resize.usage_without == {"mx": 4, CPUS: 4000, MEMORY: 4 * 1024}
    assert [place.member for place in resize.added] == [4, 5]
    assert made.world.used[1]["mx"] == 6


@pytest.mark.parametrize("sizing", [AT_START, WHILE_RUNNING])
def test_it_is_not_resized_before_it_runs_nor_if_it_only_starts_in_another_size(sizing: Sizing) -> None:
    made = site([node(1, 4)], [], elastic(1, role(6, least=2), sizing=sizing))
    made.cycle()
    if sizing is AT_START:
        made.settle(1)
    configure(made, 8)
    assert made.cycle(10).resizes == ()


def test_one_resize_in_ten_minutes() -> None:
    made = small()
    configure(made, 5)
    made.cycle(10)
    made.settle(1)
    configure(made, 8)
    assert made.cycle(609).resizes == ()
    assert why(made, 1) == [Code.BACKING_OFF]
    assert grown(made.cycle(610)) == {1: 1}


def test_room_that_somebody_waits_for_is_none() -> None:
    made = small(gang(2, role(5)))
    configure(made, 6)
    assert made.cycle(10).resizes == ()
    assert why(made, 1) == [Code.WAITING_FOR_TURN]


@pytest.mark.parametrize(
    "waiting",
    [
        pytest.param(gang(2, role(5), is_held=True), id="held"),
        pytest.param(gang(2, role(50)), id="too large for the cluster"),
        pytest.param(gang(2, role(5), queue_id=2), id="without quota"),
    ],
)
def test_who_could_not_use_it_keeps_no_room(waiting: Group) -> None:
    made = site([node(1, 4)], [queue(1), queue(2, nominal={"mx": 4})], elastic(1, role(6, least=2)), waiting)
    made.cycle()
    made.settle(1)
    configure(made, 6)
    assert grown(made.cycle(10)) == {1: 2}


def test_quota_bounds_growth_and_is_told() -> None:
    made = site([node(1)], [queue(1, nominal={"mx": 4})], elastic(1, role(6, least=2)))
    made.cycle()
    made.settle(1)
    plan = made.cycle(10)
    assert plan.resizes == ()
    assert why(made, 1) == [Code.QUOTA_EXCEEDED]
    (blockers,) = plan.queues[1].verdicts
    assert (blockers[0].need, made.have(blockers[0]), made.limit(blockers[0])) == (1, 4, 4)


def test_quota_that_somebody_of_its_queue_waits_for_is_none_either() -> None:
    made = site([node(1)], [queue(1, nominal={"mx": 5})], elastic(1, role(6, least=2)), gang(2, role(3)))
    made.cycle()
    made.settle(1)
    assert made.size(1) == (5,)
    configure(made, 8, queue(1, nominal={"mx": 7}))
    assert made.cycle(10).resizes == ()


def test_a_stopped_queue_lets_nobody_grow() -> None:
    made = small()
    configure(made, 8, queue(1, stop=Stop.HOLD))
    assert made.cycle(10).resizes == ()


def test_the_group_of_higher_priority_grows_first() -> None:
    made = site([node(1, 4)], [], elastic(1, role(3, least=2)), elastic(2, role(8, least=2), priority=5))
    made.cycle()
    made.submit(elastic(1, role(3, least=2)))
    configure(made, 8)
    made.cycle()
    made.settle(1, 2)
    assert (made.size(1), made.size(2)) == ((3,), (4,))
    assert grown(made.cycle(10)) == {2: 1}


def test_what_it_gives_up_is_its_last_members_down_to_its_minimum() -> None:
    made = site([node(1)], [], elastic(1, role(6, least=2), role(2, least=1, name="b", gpus=0)))
    made.cycle()
    shape = made.world.shapes[made.unit(1).shape_id]
    assert surplus_of(made.unit(1), shape, policy=DEFAULT, now=after(0)) == ()
    made.settle(1)
    surplus = surplus_of(made.unit(1), shape, policy=DEFAULT, now=after(0))
    assert [place.member for place in surplus] == [5, 4, 7, 3, 2]


def test_places_that_it_gives_up_are_free_when_its_members_are_gone() -> None:
    made = site([node(1)], [], elastic(1, role(8, least=2)))
    made.cycle()
    made.settle(1)
    unit, shape = made.unit(1), made.world.shapes[made.unit(1).shape_id]
    surplus = surplus_of(unit, shape, policy=DEFAULT, now=after(700))
    resize = shrink(unit, shape, dropped=surplus[:3], nodes=made.world.configuration.nodes)
    assert resize.usage_without == {"mx": 5, CPUS: 5000, MEMORY: 5 * 1024}
    made.world.resize([resize], after(700))
    assert (made.unit(1).dropping, len(made.world.capacity.nodes[1].free)) == ((7, 6, 5), 0)
    assert surplus_of(made.unit(1), shape, policy=DEFAULT, now=after(9000)) == ()
    assert made.cycle(9000).resizes == ()
    made.settle(1)
    assert (len(made.world.capacity.nodes[1].free), made.world.used[1]["mx"]) == (3, 5)
    assert surplus_of(made.unit(1), shape, policy=DEFAULT, now=after(701)) == ()


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_on_random_streams_sizes_and_quotas_are_kept(data: st.DataObject) -> None:
    """No size below a minimum or above a count, no device twice, no queue above its quota, and nothing that
    waits could have been admitted instead of what grew."""
    quota = data.draw(st.integers(3, 16))
    made = site([node(1, 4), node(2, 4), node(3, 3)], [queue(1, nominal={"mx": quota}), queue(2)])
    for step in range(data.draw(st.integers(2, 8))):
        now = step * data.draw(st.sampled_from([10, 400, 700]))
        running = sorted({unit.group_id for unit in made.world.running.values()})
        what = data.draw(st.sampled_from(["rigid", "elastic", "end", "settle", "shrink"]))
        if what == "rigid":
            made.submit(
                gang(
                    step + 1, role(data.draw(st.integers(1, 5))), queue_id=data.draw(st.sampled_from([1, 2]))
                )
            )
        elif what == "elastic":
            count = data.draw(st.integers(2, 9))
            least = data.draw(st.integers(1, count - 1))
            made.submit(
                elastic(step + 1, role(count, least=least), queue_id=data.draw(st.sampled_from([1, 2])))
            )
        elif running and what == "end":
            made.end(data.draw(st.sampled_from(running)))
        elif running and what == "shrink":
            unit = made.unit(data.draw(st.sampled_from(running)))
            shape = made.world.shapes[unit.shape_id]
            surplus = surplus_of(unit, shape, policy=DEFAULT, now=after(now))
            if surplus:
                first = data.draw(st.integers(1, len(surplus)))
                resize = shrink(unit, shape, dropped=surplus[:first], nodes=made.world.configuration.nodes)
                made.world.resize([resize], after(now))
        else:
            made.settle(*running)
        made.plan = plan_cycle(made.world, after(now))
        made.world.admit(made.plan.admissions, after(now))
        if made.plan.resizes:
            assert [
                row.group_id for row in made.world.pending.values() if _lacks_only_places(made, row)
            ] == []
        made.world.resize(made.plan.resizes, after(now))
        _check(made, quota)


def _lacks_only_places(made: Site, row: PendingUnit) -> bool:
    world, shape = made.world, made.world.shapes[row.shape_id]
    query = world.capacity.query(row.shape_id, shape)
    is_feasible = world.feasibility.fits(row.shape_id, shape, world.quota, row.queue_id)
    return is_feasible and not QuotaBook(world.quota).exceeded(row.queue_id, query)


def _check(made: Site, quota: int) -> None:
    seats = []
    for unit in made.world.running.values():
        shape = made.world.shapes[unit.shape_id]
        kept = [place for place in unit.places if place.member not in unit.dropping]
        assert shape.roles[0].min_count <= len(kept) <= len(unit.places) <= shape.roles[0].count
        assert len({place.member for place in unit.places}) == len(unit.places)
        assert unit.usage["mx"] == sum(len(place.devices) for place in unit.places)
        seats += [(place.node_id, device) for place in unit.places for device in place.devices]
    assert len(seats) == len(set(seats))
    assert made.world.used.get(1, {}).get("mx", 0) <= quota
    for state in made.world.capacity.nodes.values():
        held = sum(node_id == state.node.id for node_id, _ in seats)
        assert held + len(state.free) == len(state.node.devices)


def crowded(*groups: Group, **policy: Any) -> Site:
    """Elastic groups hold all of a node, in a queue in which priority goes first."""
    made = site([node(1)], [queue(1, preempt_within=PreemptWithin.LOWER_PRIORITY, **policy)], *groups)
    made.cycle()
    made.settle(*(group.row.group_id for group in groups if group.shape.is_elastic))
    return made


def devices_of(places: Iterable[Place]) -> set[tuple[int, int]]:
    return {(place.node_id, device) for place in places for device in place.devices}


def given_up(plan: Plan) -> dict[int, int]:
    """Members that each group gives up."""
    return {resize.unit_id >> 20: len(resize.dropped) for resize in plan.resizes}


def test_it_gives_up_no_more_than_a_claimant_needs() -> None:
    made = crowded(elastic(1, role(8, least=2)))
    made.submit(gang(2, role(3), priority=5))
    plan = made.cycle(10)
    assert (given_up(plan), plan.evictions, plan.admissions) == ({1: 3}, (), ())
    assert [len(claim.places) for claim in plan.claims_made] == [3]
    assert made.cycle(11).resizes == ()
    made.settle(1)
    assert [admission.group_id for admission in made.cycle(12).admissions] == [2]
    assert (made.size(1), made.size(2)) == ((5,), (3,))


def test_it_goes_whole_only_if_its_surplus_is_not_enough() -> None:
    made = crowded(elastic(1, role(8, least=2)))
    made.submit(gang(2, role(7), priority=5))
    plan = made.cycle(10)
    assert (plan.resizes, [eviction.unit_id >> 20 for eviction in plan.evictions]) == ((), [1])


def test_a_surplus_goes_before_any_whole_group_of_its_priority() -> None:
    made = crowded(elastic(1, role(5, least=2)), gang(2, role(3)))
    made.submit(gang(3, role(3), priority=5))
    plan = made.cycle(10)
    assert (given_up(plan), plan.evictions) == ({1: 3}, ())


def test_a_group_of_lower_priority_goes_before_a_surplus() -> None:
    made = crowded(elastic(1, role(5, least=2), priority=1), gang(2, role(3)))
    made.submit(gang(3, role(3), priority=5))
    plan = made.cycle(10)
    assert (plan.resizes, [eviction.unit_id >> 20 for eviction in plan.evictions]) == ((), [2])


def test_two_claimants_never_count_the_same_member() -> None:
    made = crowded(elastic(1, role(4, least=1)), elastic(2, role(4, least=1)))
    made.submit(gang(3, role(3), priority=5), gang(4, role(3), priority=5), gang(5, role(1), priority=5))
    plan = made.cycle(10)
    assert given_up(plan) == {1: 3, 2: 3}
    claimed = [
        (place.node_id, device)
        for claim in plan.claims_made
        for place in claim.places
        for device in place.devices
    ]
    assert len(claimed) == len(set(claimed)) >= 6


@pytest.mark.parametrize(("members", "is_enough"), [(4, True), (5, True), (6, False)])
def test_members_that_are_given_up_are_counted_for_nobody_else(members: int, is_enough: bool) -> None:
    """Who needs the rest of the group has it go whole, and nobody goes for what would not be enough."""
    made = crowded(elastic(1, role(8, least=2)))
    made.submit(gang(2, role(3), priority=5))
    (first,) = made.cycle(10).claims_made
    made.submit(gang(3, role(members), priority=5))
    plan = made.cycle(11)
    assert bool(plan.evictions) == is_enough
    seconds = [claim for claim in plan.claims_made if claim.cause is ClaimCause.PREEMPTION]
    assert bool(seconds) == is_enough
    for claim in seconds:
        assert devices_of(claim.places).isdisjoint(devices_of(first.places))


def test_a_surplus_is_given_up_with_a_receipt() -> None:
    made = crowded(elastic(1, role(8, least=2)))
    made.submit(gang(2, role(3), priority=5))
    (resize,) = made.cycle(10).resizes
    (row,) = made.world.pending
    assert resize.receipt == Receipt(
        claimant_id=row,
        entitlement=Entitlement.PRIORITY,
        before=Shares(claimant=1, victim=1),
        after=Shares(claimant=1, victim=1),
        lost_gpu_seconds=3 * DEFAULT.restart_cost_seconds,
    )


def test_its_receipt_tells_both_shares_and_the_right_to_all_of_it() -> None:
    queues = [
        queue(1, nominal={"mx": 2}, cohort=1),
        queue(2, nominal={"mx": 6}, cohort=1, reclaim=Reclaim.FAIR_SHARE),
    ]
    made = site([node(1)], queues, elastic(1, role(8, least=2)))
    made.cycle()
    made.settle(1)
    made.submit(gang(2, role(4), queue_id=2))
    (resize,) = made.cycle(10).resizes
    assert resize.receipt is not None
    assert resize.receipt.entitlement is Entitlement.RECLAIM
    assert (resize.receipt.before, resize.receipt.after) == (
        Shares(claimant=0, victim=1),
        Shares(claimant=0.5, victim=0.5),
    )


def test_who_has_just_begun_keeps_its_surplus_too() -> None:
    made = crowded(elastic(1, role(8, least=2)), min_runtime_seconds=300)
    made.submit(gang(2, role(3), priority=5))
    plan = made.cycle(299)
    assert (plan.resizes, plan.evictions) == ((), ())
    assert given_up(made.cycle(300)) == {1: 3}


def test_nominal_quota_takes_the_surplus_of_who_has_just_begun_and_no_more() -> None:
    queues = [
        queue(1, nominal={"mx": 2}, cohort=1, min_runtime_seconds=300),
        queue(2, nominal={"mx": 6}, cohort=1, reclaim=Reclaim.ANY),
    ]
    made = site([node(1)], queues, elastic(1, role(8, least=2)))
    made.cycle()
    made.settle(1)
    made.submit(gang(2, role(4), queue_id=2))
    plan = made.cycle(10)
    assert (given_up(plan), plan.evictions) == ({1: 4}, ())


def test_evictions_of_a_day_say_nothing_of_a_surplus() -> None:
    made = crowded(elastic(1, role(8, least=2)), evictions_per_day=0)
    made.submit(gang(2, role(3), priority=5), gang(3, role(8), priority=5))
    plan = made.cycle(10)
    assert (given_up(plan), plan.evictions) == ({1: 3}, ())
