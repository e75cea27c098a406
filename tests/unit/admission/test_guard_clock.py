"""The guard clock of a unit runs only while places alone are missing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from service.admission.cycle import plan_cycle
from service.admission.pauses import Clock, clock_of
from service.admission.plan import Plan
from service.admission.policy import Policy
from service.admission.waiting.guard_line import waits_since
from service.admission.world import Changes, Queue
from service.domain.claim import ClaimCause
from service.domain.queue import Order, Stop
from service.domain.unit import unit_id
from tests.builders import (
    Group,
    Site,
    after,
    cohort,
    gang,
    independent,
    loaded_afresh,
    node,
    queue,
    role,
    site,
)

#: Slots of ten seconds. No claims but those of guards.
POLICY = Policy(reserve_depth=0, guard_seconds=960)


def cycle(made: Site, seconds: float) -> Plan:
    """As the leader does. A World that is loaded now plans the same."""
    plan = plan_cycle(made.world, after(seconds), policy=POLICY)
    assert plan_cycle(loaded_afresh(made.world), after(seconds), policy=POLICY) == plan
    made.plan = plan
    made.world.admit(plan.admissions, after(seconds))
    made.world.keep_claims(plan.claims_made, ended=plan.claims_ended)
    made.world.keep_pauses(plan.pauses_made, dropped=plan.pauses_dropped)
    assert loaded_afresh(made.world) == made.world
    return plan


def configure(made: Site, *queues: Queue, **others: Any) -> None:
    before = made.world.configuration
    known = {**before.queues, **{each.id: each for each in queues}}
    made.world.apply(
        Changes(configuration=replace(before, version=before.version + 1, queues=known, **others))
    )


def read(made: Site, group_id: int, index: int = 0) -> Clock:
    row = made.world.pending[unit_id(group_id, index)]
    pauses = made.world.pauses.get(row.queue_id, ())
    guard = timedelta(seconds=POLICY.guard_seconds)
    return clock_of(pauses, row.shape_id, row.id, since=waits_since(row), guard=guard)


def runs_out_at(made: Site, group_id: int) -> float | None:
    at = read(made, group_id).runs_out_at
    return None if at is None else (at - after(0)).total_seconds()


def guarded(made: Site, seconds: float) -> set[int]:
    """Groups that have a guard's claim after a cycle at that instant."""
    cycle(made, seconds)
    claims = made.world.claims.values()
    return {made.world.pending[each.unit_id].group_id for each in claims if each.cause is ClaimCause.GUARD}


def full(*queues: Queue, gpus: int = 4, **others: Any) -> Site:
    """Two nodes on which a group of queue 9 without an end holds everything."""
    made = site([node(1, gpus=gpus), node(2, gpus=gpus)], [queue(9), *queues], **others)
    made.submit(gang(90, role(2, gpus=gpus), queue_id=9))
    cycle(made, 0)
    return made


def owned(group: Group, owner: str) -> Group:
    return Group(replace(group.row, owner=owner), group.shape)


def test_while_places_alone_are_missing_nothing_is_noted() -> None:
    made = full(queue(1))
    made.submit(gang(1, role(gpus=4), at=1))
    for seconds in (1, 100, 960):
        assert not cycle(made, seconds).pauses_made
    assert guarded(made, 961) == {1}


def test_it_stands_still_while_quota_is_missing_too() -> None:
    made = site([node(1, gpus=4), node(2, gpus=4)], [queue(1, nominal={"mx": 4}), queue(9)])
    made.submit(gang(90, role(gpus=4), queue_id=9), gang(1, role(gpus=4)), gang(2, role(gpus=4), at=1))
    made.submit(gang(3, role(gpus=4), at=1, queue_id=9))
    cycle(made, 1)
    assert read(made, 2) == Clock(timedelta(seconds=960), None)
    assert runs_out_at(made, 3) == 961
    configure(made, queue(1, nominal={"mx": 8}))
    cycle(made, 501)
    assert runs_out_at(made, 2) == 501 + 960
    assert guarded(made, 961) == {3}
    assert guarded(made, 501 + 959) == {3}
    assert guarded(made, 501 + 960) == {2, 3}


def test_it_stands_still_while_its_queue_is_stopped() -> None:
    made = full(queue(1))
    made.submit(gang(1, role(gpus=4)))
    configure(made, queue(1, stop=Stop.HOLD))
    cycle(made, 100)
    made.submit(gang(2, role(gpus=2), at=200))
    cycle(made, 300)
    configure(made, queue(1))
    cycle(made, 600)
    assert [runs_out_at(made, group) for group in (1, 2)] == [960 + 500, 600 + 960]


def test_in_a_strict_queue_it_is_the_heads_alone_that_runs() -> None:
    made = full(queue(1, order=Order.STRICT))
    made.submit(gang(1, role(gpus=4)), gang(2, role(gpus=4), at=1))
    cycle(made, 0)
    cycle(made, 400)
    assert (runs_out_at(made, 1), runs_out_at(made, 2)) == (960, None)
    made.world.apply(Changes(gone=frozenset({unit_id(1, 0)})))
    cycle(made, 500)
    assert runs_out_at(made, 2) == 500 + 960


def test_it_stands_still_while_its_user_may_hold_no_more() -> None:
    made = site([node(1, gpus=4), node(2, gpus=4)], [queue(1, user_limit={"mx": 4}), queue(9)])
    made.submit(gang(90, role(gpus=4), queue_id=9), owned(gang(1, role(gpus=4)), "t/ann"))
    cycle(made, 0)
    made.submit(owned(gang(2, role(gpus=4), at=1), "t/ann"), owned(gang(3, role(gpus=4), at=1), "t/ben"))
    cycle(made, 1)
    assert (runs_out_at(made, 2), runs_out_at(made, 3)) == (None, 961)
    # Another comes to have the places that the first gives back.
    made.end(1)
    made.submit(gang(91, role(gpus=4), queue_id=1, priority=10, at=2))
    cycle(made, 100)
    assert runs_out_at(made, 2) == 100 + 960


def test_it_stands_still_while_its_group_may_hold_no_more() -> None:
    made = full(queue(1, group_limit={"mx": 1}), gpus=1)
    made.end(90)
    made.submit(independent(1, role(3, gpus=1)))
    cycle(made, 1)
    made.submit(gang(91, queue_id=9))
    cycle(made, 2)
    assert read(made, 1, index=2).runs_out_at is None


def test_it_stands_still_while_a_group_that_may_not_borrow_has_no_quota_of_its_own() -> None:
    queues = [queue(1, nominal={"mx": 4}, cohort=1), queue(2, nominal={"mx": 8}, cohort=1)]
    made = full(*queues, cohorts=[cohort(1)], gpus=8)
    made.end(90)
    made.submit(gang(1, role(gpus=4)), gang(91, role(gpus=4), queue_id=9), gang(92, role(gpus=8), queue_id=9))
    cycle(made, 0)
    stubborn = gang(2, role(gpus=4), at=1)
    made.submit(Group(replace(stubborn.row, is_preemptible=False), stubborn.shape))
    made.submit(gang(3, role(gpus=4), at=1))
    cycle(made, 1)
    assert (runs_out_at(made, 2), runs_out_at(made, 3)) == (None, 961)


def test_it_stands_still_while_quota_is_kept_for_another() -> None:
    made = full(queue(1, nominal={"mx": 8}), gpus=5)
    made.submit(gang(1, role(gpus=4)), gang(2, role(2, gpus=3), at=100), gang(3, role(gpus=2), at=100))
    made.submit(gang(4, role(2, gpus=3), at=100, priority=10))
    cycle(made, 100)
    assert guarded(made, 960) == {1}
    # Group 1 needs 4 of the 8 whenever its places are free, and goes before who has not a higher priority.
    cycle(made, 961)
    assert [runs_out_at(made, group) for group in (2, 3)] == [100 + 960, 100 + 960]
    made.world.apply(Changes(gone=frozenset({unit_id(4, 0)})))
    cycle(made, 1000)
    assert [runs_out_at(made, group) for group in (2, 3)] == [None, 100 + 960]
    assert guarded(made, 1300) == {1, 3}
    made.world.apply(Changes(gone=frozenset({unit_id(1, 0)})))
    cycle(made, 1400)
    assert runs_out_at(made, 2) == 1400 + 60
    assert guarded(made, 1459) == {3}
    assert guarded(made, 1460) == {2, 3}


def test_of_a_strict_queue_the_head_stands_still_too_while_quota_is_kept_for_another() -> None:
    queues = [queue(1, nominal={"mx": 4}, cohort=1), queue(2, order=Order.STRICT, cohort=1)]
    made = full(*queues, cohorts=[cohort(1)])
    made.submit(gang(1, role(gpus=4)), gang(2, role(gpus=3), queue_id=2, at=100))
    cycle(made, 100)
    cycle(made, 960)
    cycle(made, 961)
    assert runs_out_at(made, 2) is None
    assert guarded(made, 2000) == {1}


def test_it_does_not_run_before_the_nodes_are_there_that_could_hold_the_group() -> None:
    made = full(queue(1))
    made.submit(gang(1, role(gpus=8)))
    cycle(made, 0)
    nodes = made.world.configuration.nodes
    configure(made, nodes={**nodes, 3: node(3, gpus=8, is_cordoned=True)})
    cycle(made, 300)
    assert runs_out_at(made, 1) == 300 + 960


def test_pauses_go_with_the_last_who_waits() -> None:
    made = full(queue(1, stop=Stop.HOLD))
    made.submit(gang(1))
    assert [pause.queue_id for pause in cycle(made, 10).pauses_made] == [1]
    made.world.apply(Changes(gone=frozenset({unit_id(1, 0)})))
    assert cycle(made, 20).pauses_dropped == frozenset({(1, after(10))})
    assert not made.world.pauses


@pytest.mark.parametrize("seconds", [0.0, 0.5])
def test_a_plan_that_was_not_committed_is_made_again(seconds: float) -> None:
    made = full(queue(1, stop=Stop.HOLD))
    made.submit(gang(1))
    lost = plan_cycle(made.world, after(10), policy=POLICY)
    again = plan_cycle(made.world, after(10 + seconds), policy=POLICY)
    assert lost.pauses_made
    assert [replace(each, began_at=after(10)) for each in again.pauses_made] == list(lost.pauses_made)


def test_guards_are_served_in_the_order_in_which_their_clocks_ran_out() -> None:
    made = full(queue(1, stop=Stop.HOLD), queue(2))
    made.submit(gang(1, role(gpus=4)), gang(2, role(gpus=4), queue_id=2, at=30))
    cycle(made, 0)
    configure(made, queue(1))
    cycle(made, 60)
    assert guarded(made, 30 + 960) == {2}
    assert guarded(made, 60 + 960) == {1, 2}
    first = made.world.claims[unit_id(2, 0)]
    assert first.made_at == after(30 + 960)


def test_many_guards_without_places_hide_nobody_behind_them() -> None:
    """All but one of them want the node that is kept for the first; no two have the same shape."""
    made = full(queue(1))
    on = [gang(group, role(gpus=4, memory_gib=group, labels={"host": "n1"})) for group in range(1, 66)]
    made.submit(*on, gang(66, role(gpus=4, labels={"host": "n2"})))
    made.submit(*(gang(group, role(gpus=4, memory_gib=group, labels={"host": "n1"})) for group in (67, 68)))
    cycle(made, 0)
    seconds = next(each for each in range(961, 971) if 66 in guarded(made, each))
    assert guarded(made, seconds + 1) == {1, 66}


def test_a_guard_takes_the_places_of_a_claim_whose_guard_runs_out_after_it() -> None:
    """Both run out at once, and the younger has a date."""
    policy = replace(POLICY, reserve_depth=1)
    made = full(queue(1))
    made.submit(gang(1, role(2, gpus=4)), Group(replace(gang(2).row, time_limit_seconds=50), gang(2).shape))
    made.end(90)
    one = gang(91, role(gpus=4, labels={"host": "n1"}), queue_id=9, priority=9)
    two = gang(92, role(gpus=4, labels={"host": "n2"}), queue_id=9, priority=9)
    made.submit(one, Group(replace(two.row, time_limit_seconds=2000), two.shape))
    made.plan = plan_cycle(made.world, after(0), policy=policy)
    made.world.admit(made.plan.admissions, after(0))
    made.world.keep_claims(made.plan.claims_made, ended=made.plan.claims_ended)
    plan = plan_cycle(made.world, after(960), policy=policy)
    assert {claim.unit_id: claim.cause for claim in plan.claims_made}[unit_id(1, 0)] is ClaimCause.GUARD


def test_equals_in_shape_are_answered_by_one_search() -> None:
    made = full(*(queue(number) for number in range(1, 71)))
    made.submit(
        *(gang(number, role(gpus=4, labels={"host": "n1"}), queue_id=number) for number in range(1, 70))
    )
    made.submit(gang(70, role(gpus=4, labels={"host": "n2"}), queue_id=70))
    cycle(made, 0)
    assert guarded(made, 961) == {1, 70}


def test_what_was_sought_in_vain_is_sought_again_when_a_claim_has_ended() -> None:
    made = full(queue(1))
    made.submit(*(gang(group, role(gpus=group, labels={"host": "n1"})) for group in (4, 3)))
    cycle(made, 0)
    for seconds in (961, 962, 963):
        assert guarded(made, seconds) == {3}
    made.world.apply(Changes(gone=frozenset({unit_id(3, 0)})))
    cycle(made, 964)
    assert guarded(made, 965) == {4}


def test_who_starts_at_once_leaves_no_pause() -> None:
    """What it takes may be the last of the quota: nobody waits for it."""
    made = site([node(1, gpus=8)], [queue(1, nominal={"mx": 4}, user_limit={"mx": 4})])
    made.submit(gang(1, role(gpus=4)))
    assert not cycle(made, 0).pauses_made
    assert not cycle(made, 100).pauses_made
