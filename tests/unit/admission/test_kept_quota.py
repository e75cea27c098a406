"""A claim with a date keeps the quota that its group needs then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.admission.cycle import plan_cycle
from service.admission.plan import Blocker, Plan
from service.admission.policy import Policy
from service.admission.quota.future_room import room_with
from service.admission.quota.tree import QuotaTree
from service.admission.world import Configuration, Queue
from service.domain.claim import ClaimCause
from service.domain.reasons import Code
from service.domain.shape import Sizing
from service.domain.unit import unit_id
from tests.builders import Group, Site, after, cohort, gang, independent, node, queue, role, site
from tests.unit.admission.strategies import configurations

POLICY = Policy(guard_seconds=100_000)


def cycle(made: Site, seconds: float, policy: Policy = POLICY) -> list[int]:
    """Groups that start."""
    plan = plan_cycle(made.world, after(seconds), policy=policy)
    assert plan_cycle(made.world, after(seconds), policy=policy) == plan
    made.plan = plan
    made.world.admit(plan.admissions, after(seconds))
    made.world.keep_claims(plan.claims_made, ended=plan.claims_ended)
    made.world.keep_pauses(plan.pauses_made, dropped=plan.pauses_dropped)
    return [admission.group_id for admission in plan.admissions]


def on(group_id: int, host: int, *, limit: int | None = None, gpus: int = 4, **fields: object) -> Group:
    """A gang of one member on node `n<host>`."""
    made = gang(group_id, role(gpus=gpus, labels={"host": f"n{host}"}), **fields)  # type: ignore[arg-type]
    return Group(replace(made.row, time_limit_seconds=limit), made.shape)


def head(*queues: Queue, policy: Policy = POLICY) -> Site:
    """Group 2 of queue 1 waits for node 1 until 1000, and needs the last 4 of its quota then."""
    made = site([node(number, gpus=4) for number in range(1, 5)], [*queues, queue(9)], cohorts=[cohort(1)])
    made.submit(on(90, 1, limit=1000, queue_id=9), on(1, 2))
    assert set(cycle(made, 0, policy)) == {1, 90}
    made.submit(on(2, 1, at=1))
    assert cycle(made, 1, policy) == []
    return made


def blockers(plan: Plan | None, queue_id: int, group_id: int) -> tuple[Blocker, ...]:
    assert plan is not None
    verdict = plan.queues[queue_id]
    (row,) = [row for row in verdict.order if row.unit_id == unit_id(group_id, 0)]
    return verdict.verdicts[row.verdict]


def test_who_is_not_gone_by_the_date_leaves_the_claimant_its_quota() -> None:
    made = head(queue(1, nominal={"mx": 8}))
    assert made.world.claims[unit_id(2, 0)].due_at == after(1000)
    made.submit(on(3, 3, at=2), on(4, 4, at=3, limit=500))
    assert cycle(made, 3) == [4]
    (told,) = blockers(made.plan, 1, 3)
    assert told.code is Code.QUOTA_EXCEEDED
    made.end(4)
    assert cycle(made, 400) == []
    (told,) = blockers(made.plan, 1, 3)
    assert (told.code, told.need, told.holders) == (Code.HELD_FOR_CLAIM, 4, ("g2",))
    assert (told.scope["of"], told.scope["flavor"]) == ("quota", "mx")
    assert told.scope["until"] == after(1000).isoformat(timespec="seconds")
    assert made.plan is not None
    assert told.have_key is not None
    assert made.plan.numbers[told.have_key] == 0
    made.end(90)
    assert cycle(made, 1000) == [2]


def test_equals_behind_it_that_are_gone_by_the_date_start() -> None:
    made = head(queue(1, nominal={"mx": 8}))
    made.submit(on(3, 3, at=2), on(4, 3, at=3, limit=900))
    assert cycle(made, 3) == [4]


def test_quota_that_is_given_back_by_the_date_counts_as_free() -> None:
    made = site([node(number, gpus=4) for number in range(1, 4)], [queue(1, nominal={"mx": 8})])
    made.submit(on(1, 1, limit=1000))
    cycle(made, 0)
    made.submit(on(2, 1, at=1), on(3, 2, at=2))
    assert cycle(made, 2) == [3]
    assert made.world.claims[unit_id(2, 0)].cause is ClaimCause.HEAD
    made.end(1)
    assert cycle(made, 1000) == [2]


@pytest.mark.parametrize(("limit", "members"), [(None, 4), (2000, 4), (500, 6)])
def test_a_group_grows_into_what_the_claimant_leaves(limit: int | None, members: int) -> None:
    made = site([node(1, gpus=4), node(2, gpus=8)], [queue(1, nominal={"mx": 8}), queue(9)])
    elastic = gang(1, role(6, least=2, labels={"host": "n2"}), sizing=Sizing.WHILE_RUNNING)
    made.submit(on(90, 1, limit=1000, queue_id=9), on(91, 2, gpus=5, queue_id=9))
    made.cycle(0)
    made.submit(Group(replace(elastic.row, time_limit_seconds=limit), elastic.shape))
    made.cycle(0)
    made.settle(1)
    assert made.size(1) == (3,)
    made.submit(on(2, 1, at=1))
    made.cycle(1)
    made.end(91)
    plan = made.cycle(2)
    assert made.world.claims[unit_id(2, 0)].due_at == after(1000)
    assert made.size(1) == (members,)
    assert bool(plan.queues[1].growing) == (members < 6)
    if members < 6:
        ((_, number),) = plan.queues[1].growing
        (told,) = plan.queues[1].verdicts[number]
        assert (told.code, told.holders, told.need) == (Code.HELD_FOR_CLAIM, ("g2",), 1)
        assert told.have_key is not None
        assert plan.numbers[told.have_key] == 0


def test_who_goes_first_by_priority_takes_it() -> None:
    made = head(queue(1, nominal={"mx": 8}))
    made.submit(on(3, 3, at=2, priority=10))
    assert cycle(made, 3) == [3]


def test_of_independent_members_as_many_start_as_leave_it_enough() -> None:
    made = head(queue(1, nominal={"mx": 11}))
    made.submit(independent(3, role(6, gpus=1), at=2))
    assert cycle(made, 3) == [3, 3, 3]


def test_queues_of_the_cohort_borrow_no_more_than_it_leaves() -> None:
    queues = (queue(1, nominal={"mx": 6}, cohort=1), queue(2, nominal={"mx": 2}, cohort=1))
    made = head(*queues)
    made.submit(on(3, 3, gpus=3, queue_id=2, at=2), on(4, 4, gpus=2, queue_id=2, at=3))
    # Group 2 borrows too: what stays within nominal quota goes before it.
    assert cycle(made, 3) == [4]
    (told,) = blockers(made.plan, 2, 3)
    assert told.code in (Code.HELD_FOR_CLAIM, Code.LENDING_LIMIT)


def test_a_queue_may_take_what_it_does_not_lend() -> None:
    queues = (
        queue(1, nominal={"mx": 8}, cohort=1),
        queue(2, nominal={"mx": 4}, lending={"mx": 0}, cohort=1),
    )
    made = head(*queues)
    made.submit(on(3, 3, queue_id=2, at=2))
    assert cycle(made, 3) == [3]


def test_what_several_claimants_need_is_added_up() -> None:
    policy = Policy(guard_seconds=100_000, reserve_depth=2)
    made = site([node(number, gpus=4) for number in range(1, 6)], [queue(1, nominal={"mx": 12}), queue(9)])
    made.submit(on(90, 1, limit=1000, queue_id=9), on(91, 2, limit=2000, queue_id=9), on(1, 3))
    assert set(cycle(made, 0, policy)) == {1, 90, 91}
    made.submit(on(2, 1, at=1), on(3, 2, at=1))
    assert cycle(made, 1, policy) == []
    assert len(made.world.claims) == 2
    made.submit(on(4, 4, at=2), on(5, 5, at=2, limit=500))
    assert cycle(made, 3, policy) == [5]


def rivals(*, quota: int, depth: int) -> Site:
    """Group 2 waits for node 1 without a date and its guard has run out; group 3 waits for node 2 until 1000.
    Each needs 4 of the quota."""
    policy = Policy(guard_seconds=100, reserve_depth=depth)
    made = site([node(number, gpus=4) for number in range(1, 6)], [queue(1, nominal={"mx": quota}), queue(9)])
    made.submit(on(90, 1, queue_id=9), on(91, 2, limit=1000, queue_id=9))
    cycle(made, 0, policy)
    made.submit(on(2, 1, at=1))
    cycle(made, 1, policy)
    cycle(made, 101, policy)
    made.submit(on(3, 2, at=102))
    cycle(made, 102, policy)
    return made


def test_who_has_to_leave_quota_gets_no_claim_and_no_slot_is_taken() -> None:
    made = rivals(quota=7, depth=1)
    assert {row: claim.cause for row, claim in made.world.claims.items()} == {unit_id(2, 0): ClaimCause.GUARD}
    made.submit(on(4, 2, gpus=3, at=103))
    cycle(made, 103, Policy(guard_seconds=100))
    assert made.world.claims[unit_id(4, 0)].cause is ClaimCause.HEAD


def test_at_its_date_who_has_to_leave_quota_gives_its_places_up() -> None:
    made = rivals(quota=8, depth=1)
    assert made.world.claims[unit_id(3, 0)].due_at == after(1000)
    policy = Policy(guard_seconds=100_000)
    made.submit(on(4, 3, at=110, priority=10), on(5, 2, gpus=3, queue_id=9, at=111))
    assert cycle(made, 111, policy) == [4]
    assert unit_id(3, 0) in made.world.claims
    made.end(91)
    assert cycle(made, 1000, policy) == [5]
    assert set(made.world.claims) == {unit_id(2, 0)}
    made.end(5)
    assert cycle(made, 1002, policy) == []
    (told,) = blockers(made.plan, 1, 3)
    assert (told.code, told.holders, told.scope["of"]) == (Code.HELD_FOR_CLAIM, ("g2",), "quota")


def test_a_guard_that_runs_out_takes_no_quota_from_an_older_claim() -> None:
    made = rivals(quota=7, depth=0)
    assert cycle(made, 300, Policy(guard_seconds=100, reserve_depth=0)) == []
    assert set(made.world.claims) == {unit_id(2, 0)}


def test_a_guard_without_a_date_keeps_what_it_needs_now() -> None:
    policy = Policy(guard_seconds=100, reserve_depth=0)
    made = site([node(number, gpus=4) for number in range(1, 4)], [queue(1, nominal={"mx": 8}), queue(9)])
    made.submit(on(90, 1, queue_id=9), on(1, 2))
    cycle(made, 0, policy)
    made.submit(on(2, 1, at=1))
    cycle(made, 1, policy)
    cycle(made, 101, policy)
    assert made.world.claims[unit_id(2, 0)].cause is ClaimCause.GUARD
    made.submit(on(3, 3, at=102, limit=10))
    assert cycle(made, 102, policy) == []


@given(
    config=configurations(),
    used=st.dictionaries(st.integers(1, 4), st.integers(0, 12)),
    more=st.dictionaries(st.integers(1, 4), st.integers(-12, 12)),
)
def test_room_is_that_of_a_tree_that_holds_so_much(
    config: Configuration, used: dict[int, int], more: dict[int, int]
) -> None:
    for resource in ("mx", "cpus"):
        held = {queue_id: used.get(queue_id, 0) for queue_id in config.queues}
        changes = {key: max(-held[key], each) for key, each in more.items() if key in held}
        tree, other = QuotaTree(config, _of(resource, held)), QuotaTree(config, _of(resource, held))
        for queue_id, each in changes.items():
            other.charge(queue_id, {resource: each})
        for queue_id in config.queues:
            found, room = room_with(tree, queue_id, resource, changes), other.available(queue_id, resource)
            assert (None if found is None else max(0, found)) == room


def _of(resource: str, held: Mapping[int, int]) -> dict[int, dict[str, int]]:
    return {queue_id: {resource: amount} for queue_id, amount in held.items()}
