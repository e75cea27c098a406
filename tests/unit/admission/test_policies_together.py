"""Where one part of the policy meets another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from service.admission.cycle import plan_cycle
from service.admission.plan import Plan
from service.admission.policy import Policy
from service.domain.claim import ClaimCause
from service.domain.queue import Order, PreemptWithin, Reclaim
from service.domain.unit import unit_id
from tests.builders import Group, Site, after, cohort, gang, node, queue, role, site

GUARD = Policy(guard_seconds=1000)


def cycle(made: Site, seconds: float, policy: Policy = GUARD) -> Plan:
    """Plan and carry out, as the leader does; whoever gives way is there until `gone` says otherwise."""
    plan = plan_cycle(made.world, after(seconds), policy=policy)
    made.plan = plan
    made.world.admit(plan.admissions, after(seconds))
    for eviction in plan.evictions:
        made.world.give_way(eviction.unit_id, after(seconds), preempted_at=(after(seconds),))
    made.world.keep_claims(plan.claims_made, ended=plan.claims_ended)
    made.world.keep_pauses(plan.pauses_made, dropped=plan.pauses_dropped)
    return plan


def owned(group: Group, owner: str, **changes: Any) -> Group:
    return Group(replace(group.row, owner=owner, **changes), group.shape)


def limited(group: Group, seconds: int) -> Group:
    return Group(replace(group.row, time_limit_seconds=seconds), group.shape)


def causes(made: Site, *group_ids: int) -> list[ClaimCause | None]:
    claims = (made.world.claims.get(unit_id(group_id, 0)) for group_id in group_ids)
    return [None if claim is None else claim.cause for claim in claims]


def admitted(plan: Plan) -> list[int]:
    return [admission.group_id for admission in plan.admissions]


def evicted(made: Site, plan: Plan) -> set[str]:
    return {made.world.running[eviction.unit_id].public_id for eviction in plan.evictions}


def test_nobody_gives_way_to_more_than_one_user_may_hold() -> None:
    made = site(
        [node(1, gpus=2), node(2, gpus=2)],
        [queue(preempt_within=PreemptWithin.LOWER_PRIORITY, user_limit={"mx": 2})],
        *(owned(gang(number, role(gpus=2)), f"t/u{number}") for number in (1, 2)),
    )
    assert admitted(cycle(made, 0)) == [1, 2]
    made.submit(*(owned(gang(number, role(gpus=2), priority=10), "t/ann") for number in (3, 4)))
    assert len(cycle(made, 10).evictions) == 1


def test_what_is_kept_for_a_claimant_counts_for_its_user() -> None:
    made = site(
        [node(1, gpus=2), node(2, gpus=2), node(3, gpus=1)],
        [queue(preempt_within=PreemptWithin.LOWER_PRIORITY, user_limit={"mx": 4})],
        *(owned(gang(number, role(gpus=2)), f"t/u{number}") for number in (1, 2)),
    )
    cycle(made, 0)
    made.submit(owned(gang(3, role(2, gpus=2), priority=10), "t/ann"))
    assert len(cycle(made, 10).evictions) == 2
    # Another group of the same user comes first, and finds a place that nobody waits for.
    made.submit(owned(gang(4, priority=20), "t/ann"))
    assert admitted(cycle(made, 20)) == []
    made.end(1, 2)
    assert admitted(cycle(made, 30)) == [3]


def test_a_dated_claim_is_a_guards_when_the_guard_runs_out() -> None:
    made = site([node(1, gpus=2)], [queue()], limited(gang(1), 5000), gang(2, role(gpus=2)))
    cycle(made, 0)
    assert causes(made, 2) == [ClaimCause.HEAD]
    cycle(made, 1000)
    assert causes(made, 2) == [ClaimCause.GUARD]


def test_who_borrows_is_not_overtaken_for_ever_by_who_does_not() -> None:
    queues = [queue(1, nominal={"mx": 0}, cohort=1), queue(2, nominal={"mx": 4}, cohort=1)]
    made = site([node(1, gpus=2), node(2, gpus=2)], queues, cohorts=[cohort(nominal={"mx": 4})])
    made.submit(limited(gang(1, role(gpus=2), queue_id=2), 500))
    cycle(made, 0)
    made.submit(limited(gang(2, role(2, gpus=2), queue_id=1, at=1), 100))
    waits, number = 0, 3
    for seconds in range(10, 4000, 250):
        made.submit(limited(gang(number, role(gpus=2), queue_id=2, at=seconds), 500))
        number += 1
        over = [
            unit.group_id for unit in made.world.running.values() if unit.admitted_at <= after(seconds - 500)
        ]
        made.end(*over)
        if 2 in admitted(cycle(made, seconds)):
            break
        waits = seconds
    assert waits <= GUARD.guard_seconds + 2 * 500


def heads(*first: Group, order: Order = Order.BEST_EFFORT, **policy: Any) -> Site:
    """Two free GPUs on two nodes; an endless group beside each, `first`, and behind it a pair like it."""
    made = site([node(1, gpus=2), node(2, gpus=2)], [queue(order=order, **policy)])
    made.submit(*(gang(number, at=-10) for number in (1, 2)))
    cycle(made, 0)
    # They are packed on one node: another one has to take half of the other.
    made.submit(gang(3, at=-5))
    cycle(made, 0)
    made.submit(*first)
    return made


def expired(made: Site, groups: Iterable[int]) -> list[ClaimCause | None]:
    cycle(made, 100)
    cycle(made, 2000)
    return causes(made, *groups)


def test_a_held_head_keeps_nobody_from_its_guard() -> None:
    pair = role(2, gpus=2)
    made = heads(gang(4, pair, is_held=True), gang(5, pair, at=1))
    assert expired(made, [4, 5]) == [None, ClaimCause.GUARD]


def test_a_held_head_of_a_strict_queue_keeps_nobody_from_its_guard() -> None:
    made = heads(gang(4, role(2, gpus=1), is_held=True), gang(5, role(2, gpus=2), at=1), order=Order.STRICT)
    assert expired(made, [4, 5]) == [None, ClaimCause.GUARD]


def test_a_head_whose_user_may_hold_no_more_keeps_nobody_from_its_guard() -> None:
    pair = role(2, gpus=2)
    made = heads(owned(gang(4, pair), "t/ann"), owned(gang(5, pair, at=1), "t/ben"), user_limit={"mx": 4})
    running = made.world.running[unit_id(1, 0)]
    assert running.owner == ""
    made.submit(owned(gang(6, role(gpus=1), at=2), "t/ann"))
    assert expired(made, [4, 5]) == [None, ClaimCause.GUARD]


def test_a_head_that_came_later_keeps_nobody_from_its_guard() -> None:
    pair = role(2, gpus=2)
    made = heads(gang(5, pair, at=1))
    cycle(made, 100)
    made.submit(gang(6, pair, priority=10, at=1900))
    cycle(made, 2000)
    assert causes(made, 5, 6) == [ClaimCause.GUARD, None]


def test_a_claim_stays_though_somebody_sits_on_it_who_gives_way_at_once() -> None:
    queues = [
        queue(1, preempt_within=PreemptWithin.LOWER_PRIORITY, nominal={"mx": 8}, cohort=1),
        queue(2, nominal={"mx": 8}, cohort=1, reclaim=Reclaim.NEVER),
    ]
    made = site([node(1, gpus=4), node(2, gpus=4)], queues)
    made.submit(limited(gang(1, role(gpus=4), queue_id=2), 3600))
    cycle(made, 0)
    made.submit(gang(2, role(2, gpus=4), priority=10, at=1))
    cycle(made, 10)
    assert causes(made, 2) == [ClaimCause.HEAD]
    made.submit(gang(3, role(gpus=4), priority=0, at=2))
    assert admitted(cycle(made, 20)) == [3]
    cycle(made, 30)
    assert causes(made, 2) == [ClaimCause.HEAD]
    assert made.world.claims[unit_id(2, 0)].due_at == after(3600)


def test_who_may_borrow_nothing_and_has_nothing_blocks_nobody_in_a_strict_queue() -> None:
    queues = [
        queue(1, order=Order.STRICT, nominal={"mx": 1}, cohort=1),
        queue(2, nominal={"mx": 4}, cohort=1),
    ]
    made = site([node(1, gpus=4)], queues)
    made.submit(owned(gang(1, role(gpus=2)), "t/ann", is_preemptible=False), gang(2, role(gpus=2), at=1))
    assert admitted(cycle(made, 0)) == [2]
