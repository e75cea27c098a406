"""Quotas of queues and cohorts: tables after the published examples of hierarchical cohorts, and against the
definitions computed anew."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isnan
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.admission.plan import Shares
from service.admission.quota.room_given import RoomGiven
from service.admission.quota.tree import QuotaTree
from service.admission.world import Cohort, Configuration, Queue
from service.domain.reasons import Code
from service.domain.resources import CPUS
from tests.builders import cohort, configuration, node, queue
from tests.unit.admission.quota_reference import Reference

_FLAVORS = ("ma", "mb")


def _tree(queues: list[Queue], *cohorts: Cohort, used: dict[int, int] | None = None) -> QuotaTree:
    """`used`: of `mx` by queue."""
    config = configuration([node(1)], queues, cohorts=cohorts)
    return QuotaTree(config, {queue_id: {"mx": amount} for queue_id, amount in (used or {}).items()})


def _mx(amount: int) -> dict[str, int]:
    return {"mx": amount}


def _member(queue_id: int, nominal: int, *, of: int = 1, **limits: Any) -> Queue:
    return queue(queue_id, cohort=of, nominal=_mx(nominal), **limits)


def test_a_queue_alone_may_hold_its_nominal_quota() -> None:
    tree = _tree([queue(1, nominal=_mx(8)), queue(2), queue(3, nominal={})], used={1: 5, 2: 3})
    assert [tree.available(queue_id, "mx") for queue_id in (1, 2, 3)] == [3, None, 0]
    assert [tree.ceiling(queue_id, "mx") for queue_id in (1, 2, 3)] == [8, None, 0]
    assert tree.available(1, "other") == 0
    assert tree.available(1, CPUS) is None


def test_all_of_a_cohort_may_be_borrowed() -> None:
    """Nominal 9 and 12: either may take what the other leaves."""
    tree = _tree([_member(1, 9), _member(2, 12)])
    assert (tree.available(1, "mx"), tree.available(2, "mx")) == (21, 21)
    tree.charge(1, _mx(15))
    assert (tree.available(1, "mx"), tree.available(2, "mx")) == (6, 6)
    tree.charge(2, _mx(6))
    assert (tree.available(1, "mx"), tree.available(2, "mx")) == (0, 0)


def test_a_borrowing_limit_bounds_what_is_above_the_nominal_quota() -> None:
    """Nominal 9 with borrowing limit 1: at most 10, whatever the cohort has."""
    tree = _tree([_member(1, 9, borrowing=_mx(1)), _member(2, 12)])
    assert tree.available(1, "mx") == tree.ceiling(1, "mx") == 10
    tree.charge(1, _mx(9))
    assert tree.available(1, "mx") == 1
    assert tree.available(2, "mx") == 12


def test_what_a_lending_limit_keeps_is_for_its_queue_alone() -> None:
    """Nominal 9 with lending limit 1: the others get 1 of it at most, and 8 stay whatever they do."""
    tree = _tree([_member(1, 9, lending=_mx(1)), _member(2, 12)])
    assert (tree.available(1, "mx"), tree.available(2, "mx")) == (21, 13)
    tree.charge(2, _mx(13))
    assert (tree.available(1, "mx"), tree.available(2, "mx")) == (8, 0)
    tree.refund(2, _mx(13))
    tree.charge(1, _mx(9))
    assert (tree.available(1, "mx"), tree.available(2, "mx")) == (12, 12)


def test_a_cohort_has_quota_of_its_own_and_borrows_from_its_parent() -> None:
    """Root 3 with 10 of its own; cohort 1 below it (nominal 2) may take 4 of them, cohort 2 none."""
    tree = _tree(
        [_member(1, 1), _member(2, 1), _member(3, 5, of=2)],
        cohort(3, nominal=_mx(10)),
        cohort(1, parent=3, nominal=_mx(2), borrowing=_mx(4)),
        cohort(2, parent=3, borrowing=_mx(0), lending=_mx(0)),
    )
    assert [tree.available(queue_id, "mx") for queue_id in (1, 2, 3)] == [8, 8, 5]
    tree.charge(1, _mx(6))
    assert [tree.available(queue_id, "mx") for queue_id in (1, 2, 3)] == [2, 2, 5]
    tree.charge(3, _mx(5))
    assert [tree.available(queue_id, "mx") for queue_id in (1, 2, 3)] == [2, 2, 0]


def test_a_hard_limit_bounds_own_and_borrowed_together() -> None:
    tree = _tree([queue(1, cohort=1, nominal=_mx(4), limit=_mx(6)), _member(2, 8)], used={1: 5})
    assert tree.available(1, "mx") == 1
    assert tree.ceiling(1, "mx") == 6


def test_a_lowered_quota_takes_nothing_away_and_gives_nothing_more() -> None:
    tree = _tree([_member(1, 2), _member(2, 2)], used={1: 9})
    assert [tree.available(queue_id, "mx") for queue_id in (1, 2)] == [0, 0]
    assert tree.excess(1, "mx") == 7


@pytest.mark.parametrize(
    ("queues", "used", "code", "cohort_id", "amount", "limit"),
    [
        ([queue(1, nominal=_mx(4))], {1: 1}, Code.QUOTA_EXCEEDED, None, 3, 4),
        ([queue(1, cohort=1, nominal={}, limit=_mx(2)), _member(2, 8)], {}, Code.QUOTA_EXCEEDED, None, 2, 2),
        ([_member(1, 4, borrowing=_mx(1)), _member(2, 8)], {1: 4}, Code.BORROWING_LIMIT, None, 1, 5),
        ([_member(1, 4), _member(2, 8, lending=_mx(3))], {1: 4}, Code.LENDING_LIMIT, 1, 3, 7),
        ([_member(1, 4), _member(2, 8)], {1: 4, 2: 7}, Code.LENDING_LIMIT, 1, 1, 12),
    ],
)
def test_the_tightest_bound_is_named(
    queues: list[Queue], used: dict[int, int], code: Code, cohort_id: int | None, amount: int, limit: int
) -> None:
    room = _tree(queues, used=used).room(1, "mx")
    assert room is not None
    assert room[:4] == (amount, code, cohort_id, limit)


def test_the_borrowing_limit_of_a_cohort_is_named_with_the_cohort() -> None:
    tree = _tree(
        [_member(1, 1)],
        cohort(1, parent=2, borrowing=_mx(3)),
        cohort(2, nominal=_mx(10)),
        used={1: 2},
    )
    assert tree.room(1, "mx") == (2, Code.BORROWING_LIMIT, 1, 4, 1)


def test_what_a_queue_may_take_of_its_own() -> None:
    tree = _tree([_member(1, 4), queue(2)], used={1: 3, 2: 5})
    assert tree.is_within_nominal(1, {"mx": 1, CPUS: 99})
    assert not tree.is_within_nominal(1, {"mx": 2})
    assert not tree.is_within_nominal(1, {"mx": 1, "other": 1})
    assert tree.is_within_nominal(2, {"mx": 99})
    assert (tree.excess(1, "mx"), tree.excess(2, "mx")) == (0, 0)


def test_cpus_that_a_cohort_names_bound_its_queues() -> None:
    tree = _tree(
        [queue(1, cohort=1, nominal={}), queue(2, cohort=1, nominal={CPUS: 1000}), queue(3, nominal={})],
        cohort(1, nominal={CPUS: 4000}),
    )
    tree.charge(1, {CPUS: 3000})
    assert [tree.available(queue_id, CPUS) for queue_id in (1, 2, 3)] == [2000, 2000, None]


def test_shares_are_of_the_cohort_and_divided_by_weight() -> None:
    tree = _tree(
        [_member(1, 6), _member(2, 2), queue(3, cohort=1, nominal={}, weight=2.0)], used={1: 4, 2: 4, 3: 4}
    )
    assert [tree.share(queue_id) for queue_id in (1, 2, 3)] == [0.5, 0.5, 0.25]


def test_shares_are_compared_where_the_queues_part() -> None:
    tree = _tree(
        [_member(1, 4), _member(2, 4), _member(3, 8, of=2), queue(4, nominal=_mx(10))],
        cohort(1, parent=3),
        cohort(2, parent=3),
        cohort(3),
        used={1: 4, 2: 2, 3: 2, 4: 1},
    )
    assert tree.shares(1, 2) == Shares(claimant=4 / 8, victim=2 / 8)
    assert tree.shares(3, 1) == Shares(claimant=2 / 16, victim=6 / 16)
    assert tree.shares(4, 1) == Shares(claimant=1 / 10, victim=8 / 16)
    assert tree.shares(1, 1) == Shares(claimant=4 / 8, victim=4 / 8)


@pytest.mark.parametrize("used", [0, 4])
def test_weight_0_is_an_infinite_share_also_of_nothing(used: int) -> None:
    tree = _tree([queue(1, cohort=1, nominal={}, weight=0.0), _member(2, 4)], used={1: used})
    assert tree.share(1) == inf


def test_a_queue_without_a_quota_is_measured_by_the_cluster() -> None:
    tree = _tree([queue(1), queue(2, nominal=_mx(0)), queue(3, weight=1e6)], used={1: 2, 2: 4, 3: 8})
    assert [tree.share(queue_id) for queue_id in (1, 2, 3)] == [0.25, 0.5, 1e-6]


@st.composite
def _configurations(draw: st.DrawFn) -> Configuration:
    """Up to five cohorts, each below an earlier one or none, and up to six queues."""
    amounts = st.dictionaries(st.sampled_from((*_FLAVORS, CPUS)), st.integers(0, 6))
    weights = st.sampled_from((0.0, 0.5, 1.0, 1e6))
    count = draw(st.integers(0, 5))
    cohorts = [
        cohort(
            number,
            parent=draw(st.none() | st.integers(1, number - 1)) if number > 1 else None,
            weight=draw(weights),
            nominal=draw(amounts),
            borrowing=draw(amounts),
            lending=draw(amounts),
        )
        for number in range(1, count + 1)
    ]
    queues = [
        queue(
            number,
            cohort=of,
            nominal=draw(amounts if of else st.none() | amounts),
            limit=draw(st.none() | amounts),
            borrowing=draw(amounts),
            lending=draw(amounts),
            weight=draw(weights),
        )
        for number in range(1, draw(st.integers(1, 6)) + 1)
        for of in [draw(st.none() | st.integers(1, count)) if count else None]
    ]
    return configuration([node(1, 4, model="ma")], queues, cohorts=cohorts)


_CHARGES = st.lists(
    st.tuples(
        st.integers(1, 6),
        st.dictionaries(st.sampled_from((*_FLAVORS, CPUS)), st.integers(0, 5)),
        st.booleans(),
    ),
    max_size=12,
)


@settings(max_examples=300)
@given(_configurations(), _CHARGES)
def test_what_is_kept_is_what_the_definitions_say(
    config: Configuration, charges: list[tuple[int, dict[str, int], bool]]
) -> None:
    tree, used = QuotaTree(config, {}), dict[int, dict[str, int]]()
    for queue_id, change in _changes(config, used, charges):
        tree.charge(queue_id, change)
    reference, fresh = Reference(config, used), QuotaTree(config, used)
    for each in config.queues.values():
        for resource in (*_FLAVORS, CPUS):
            assert tree.available(each.id, resource) == reference.available(each.id, resource)
            assert tree.ceiling(each.id, resource) == reference.ceiling(each.id, resource)
            assert tree.room(each.id, resource) == fresh.room(each.id, resource)
        assert tree.share(each.id) == pytest.approx(reference.share(each))
        assert not isnan(tree.share(each.id))


def _changes(
    config: Configuration, used: dict[int, dict[str, int]], charges: list[tuple[int, dict[str, int], bool]]
) -> Iterator[tuple[int, dict[str, int]]]:
    """What queues take, and give back of what they hold, which `used` becomes."""
    for queue_id, usage, is_refund in charges:
        if queue_id not in config.queues:
            continue
        held = used.setdefault(queue_id, {})
        change = {r: -min(a, held.get(r, 0)) for r, a in usage.items()} if is_refund else usage
        for resource, amount in change.items():
            held[resource] = held.get(resource, 0) + amount
        yield queue_id, change


@settings(max_examples=300)
@given(_configurations(), _CHARGES, st.integers(1, 6))
def test_what_would_be_left_is_told_without_a_change_of_the_tree(
    config: Configuration, charges: list[tuple[int, dict[str, int], bool]], amount: int
) -> None:
    tree, used = QuotaTree(config, {}), dict[int, dict[str, int]]()
    rooms = {
        (queue_id, resource): RoomGiven(tree, queue_id, resource, amount)
        for queue_id in config.queues
        for resource in (*_FLAVORS, CPUS)
    }
    for queue_id, change in _changes(config, used, charges):
        for (_, resource), room in rooms.items():
            room.take(queue_id, -change.get(resource, 0))
    reference = Reference(config, used)
    for (queue_id, resource), room in rooms.items():
        left = reference.available(queue_id, resource)
        assert (room.missing() > 0) == (left is not None and left < amount)
        if left:
            assert room.missing() == max(0, amount - left)


@settings(max_examples=300)
@given(_configurations(), st.lists(st.tuples(st.integers(1, 6), st.sampled_from(_FLAVORS)), max_size=30))
def test_whatever_is_taken_within_what_is_available_no_limit_is_passed(
    config: Configuration, takes: list[tuple[int, str]]
) -> None:
    tree, used = QuotaTree(config, {}), dict[int, dict[str, int]]()
    for queue_id, resource in takes:
        if queue_id in config.queues and tree.available(queue_id, resource) != 0:
            tree.charge(queue_id, {resource: 1})
            held = used.setdefault(queue_id, {})
            held[resource] = held.get(resource, 0) + 1
    reference = Reference(config, used)
    for each in config.queues.values():
        for resource in _FLAVORS:
            held_here = used.get(each.id, {}).get(resource, 0)
            assert held_here <= (each.quota.limit or {}).get(resource, held_here)
            borrowing = each.quota.borrowing.get(resource)
            if each.cohort_id is not None and borrowing is not None:
                assert held_here <= (each.quota.nominal or {}).get(resource, 0) + borrowing
    for of in config.cohorts.values():
        for resource in _FLAVORS:
            held_in = reference.held(of, resource)
            if of.parent_id is None:
                assert held_in <= reference.total(of, resource)
            elif resource in of.quota.borrowing:
                assert held_in <= reference.total(of, resource) + of.quota.borrowing[resource]
