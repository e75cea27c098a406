"""Who gives way to whom, rule by rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from service.admission.policy import DEFAULT, Policy
from service.admission.preemption.candidates import Candidates
from service.domain.preemption import Entitlement
from service.domain.queue import PreemptWithin, Reclaim
from tests.builders import Group, Site, after, gang, node, queue, role, site
from tests.unit.admission.preempting import ask, ask_in_one_cycle, change, run, victims

LOWER = PreemptWithin.LOWER_PRIORITY


def _one(group_id: int, gpus: int = 1, **fields: Any) -> Group:
    return gang(group_id, role(1, gpus), **fields)


def _with(group: Group, **fields: Any) -> Group:
    return Group(replace(group.row, **fields), group.shape)


def _full(*, within: PreemptWithin = LOWER, **policy: Any) -> Site:
    """One node of 4, taken by groups 1 to 4 of priority 1 to 4, one GPU each."""
    made = site([node(1, 4)], [queue(1, preempt_within=within, **policy)])
    run(made, *(_one(number, priority=number) for number in range(1, 5)))
    return made


def test_only_lower_priorities_of_the_own_queue_give_way() -> None:
    assert victims(ask(_full(), _one(9, priority=5))) == [1]
    assert victims(ask(_full(), _one(9, priority=1))) == []
    assert victims(ask(_full(), _one(9, 2, priority=3))) == [1, 2]
    assert victims(ask(_full(), _one(9, 3, priority=3))) == []
    assert victims(ask(_full(within=PreemptWithin.NEVER), _one(9, priority=5))) == []


@pytest.mark.parametrize(("priority", "may_be"), [(1, False), (2, True)])
def test_a_queue_whose_best_row_is_above_nobody_is_not_looked_into(priority: int, may_be: bool) -> None:
    made = _full()
    made.submit(_one(9, priority=priority))
    assert Candidates(made.world, DEFAULT, after(100)).may_be_for(1) is may_be


def test_who_may_not_be_preempted_is_no_victim() -> None:
    made = _full()
    change(made, 1, is_preemptible=False)
    assert victims(ask(made, _one(9, priority=5))) == [2]


def test_who_never_ran_does_not_preempt() -> None:
    assert victims(ask(_full(), _with(_one(9, priority=5), has_never_run=True))) == []


def test_who_holds_no_gpus_gives_way_too() -> None:
    made = site([node(1, 4, cpus=4)], [queue(1, preempt_within=LOWER)])
    run(made, gang(1, role(1, 0, cpus=3), priority=0))
    made.submit(gang(2, role(1, 4, cpus=4), priority=5, at=1))
    plan = made.cycle(2)
    assert [eviction.unit_id >> 20 for eviction in plan.evictions] == [1]


def test_what_leaves_already_is_waited_for_and_not_chosen_again() -> None:
    made = _full()
    change(made, 4, evicting_until=after(500))
    assert ask(made, _one(9, priority=5)) is None
    found = ask(made, _one(10, 2, priority=5))
    assert victims(found) == [1]
    assert found is not None
    assert found.claim.due_at == after(560), "the latest of those on its places, and a minute"


def test_several_of_one_cycle_never_count_the_same_gpu() -> None:
    made = _full()
    found = ask_in_one_cycle(made, [_one(9, priority=5), _one(10, priority=5), _one(11, 3, priority=5)])
    assert [victims(each) for each in found] == [[1], [2], []]
    places = [(place.node_id, place.devices) for each in found if each for place in each.claim.places]
    assert len(set(places)) == 2


def test_nobody_gives_way_if_the_claimant_does_not_fit_whole() -> None:
    assert victims(ask(_full(), gang(9, role(2, 4), priority=9))) == []


def test_free_places_are_taken_first() -> None:
    made = site([node(1, 4), node(2, 1)], [queue(1, preempt_within=LOWER)])
    run(made, *(_one(number, 2, priority=0) for number in (1, 2)))
    assert victims(ask(made, gang(9, role(3, 1), priority=1))) == [2]


def test_the_newest_of_equals_goes() -> None:
    made = site([node(1, 4)], [queue(1, preempt_within=LOWER)])
    run(made, *(_one(number, at=-10 * number) for number in (1, 2, 3, 4)))
    assert victims(ask(made, _one(9, priority=1))) == [1]


def test_the_cheapest_of_one_priority_goes() -> None:
    made = site([node(1, 4)], [queue(1, preempt_within=LOWER)])
    run(made, _one(1), at=0)
    run(made, _one(2), at=50)
    run(made, _one(3, 2), at=60)
    found = ask(made, _one(9, priority=1))
    assert victims(found) == [2]
    assert found is not None
    assert found.evictions[0].receipt.lost_gpu_seconds == 50 + 60, "its work and a restart"


def test_one_dear_victim_is_spared_for_two_cheap_ones() -> None:
    made = site([node(1, 2), node(2, 2)], [queue(1, preempt_within=LOWER)])
    run(made, _one(1, 2), at=-1000)
    run(made, _one(2), _one(3), at=90)
    assert victims(ask(made, _one(9, 2, priority=1))) == [2, 3]


def test_the_lowest_priority_goes_whatever_it_costs() -> None:
    made = site([node(1, 4)], [queue(1, preempt_within=LOWER)])
    run(made, _one(1, 2, priority=0), at=-5000)
    run(made, _one(2, 2, priority=1), at=99)
    assert victims(ask(made, _one(9, 1, priority=2))) == [1]


def test_quota_alone_may_be_what_is_lacking() -> None:
    made = site([node(1, 8)], [queue(1, nominal={"mx": 2}, preempt_within=LOWER)])
    run(made, _one(1), _one(2))
    assert victims(ask(made, _one(9, priority=1))) == [2]


def _cohort(reclaim: Reclaim, *, owner: int = 4, borrower: int = 4, **policy: Any) -> Site:
    """8 GPUs: queue 1 borrows them all, in groups of 2 with priority 5."""
    made = site(
        [node(1, 8)],
        [
            queue(1, nominal={"mx": borrower}, cohort=1, **policy),
            queue(2, nominal={"mx": owner}, cohort=1, reclaim=reclaim),
        ],
    )
    run(made, *(_one(number, 2, priority=5) for number in (1, 2, 3, 4)))
    return made


def test_nominal_quota_is_reclaimed() -> None:
    found = ask(_cohort(Reclaim.ANY), _one(9, 4, queue_id=2))
    assert victims(found) == [3, 4]
    assert found is not None
    (one, other) = found.evictions
    assert one.receipt.entitlement is other.receipt.entitlement is Entitlement.RECLAIM
    assert (one.receipt.before.claimant, one.receipt.before.victim) == (0, 1)
    assert (one.receipt.after.claimant, one.receipt.after.victim) == (0.5, 0.5)
    assert victims(ask(_cohort(Reclaim.NEVER), _one(9, 4, queue_id=2))) == []


def test_no_more_is_reclaimed_than_the_own_nominal_quota() -> None:
    assert victims(ask(_cohort(Reclaim.ANY), _one(9, 5, queue_id=2))) == []
    assert victims(ask(_cohort(Reclaim.ANY, owner=0, borrower=8), _one(9, 1, queue_id=2))) == []


def test_reclaim_by_priority_takes_only_lower_ones() -> None:
    assert victims(ask(_cohort(Reclaim.LOWER_PRIORITY), _one(9, 2, queue_id=2))) == []
    assert victims(ask(_cohort(Reclaim.LOWER_PRIORITY), _one(9, 2, queue_id=2, priority=6))) == [4]


def test_reclaim_stops_at_the_nominal_quota_of_the_others() -> None:
    """Groups of 3 with 4 of their own: one is given while more than 4 are held."""
    made = site(
        [node(1, 8)],
        [
            queue(1, nominal={"mx": 4}, cohort=1),
            queue(2, nominal={"mx": 4}, cohort=1, reclaim=Reclaim.ANY),
        ],
    )
    run(made, _one(1, 3), _one(2, 3), _one(3, 2, queue_id=2))
    assert victims(ask(made, _one(9, 2, queue_id=2))) == [2]
    made.end(2)
    assert victims(ask(made, _one(10, 8, queue_id=2))) == []


def test_queues_that_do_not_lend_to_each_other_take_nothing() -> None:
    made = site(
        [node(1, 8)],
        [
            queue(1, nominal={"mx": 0}, cohort=1),
            queue(3, nominal={"mx": 8}, cohort=1),
            queue(2, nominal={"mx": 8}, cohort=2, reclaim=Reclaim.FAIR_SHARE),
        ],
    )
    run(made, *(_one(number, 2) for number in (1, 2, 3, 4)))
    assert victims(ask(made, _one(9, 2, queue_id=2))) == []


def _shared(**policy: Any) -> Site:
    """8 GPUs that nobody owns but the cohort's lender; queue 1 holds all of them in groups of 2."""
    made = site(
        [node(1, 8)],
        [
            queue(1, nominal={}, cohort=1, reclaim=Reclaim.FAIR_SHARE),
            queue(2, nominal={}, cohort=1, reclaim=Reclaim.FAIR_SHARE, **policy),
            queue(3, nominal={"mx": 8}, cohort=1),
        ],
    )
    run(made, *(_one(number, 2) for number in (1, 2, 3, 4)))
    return made


def test_what_is_borrowed_is_shared_out_evenly() -> None:
    found = ask_in_one_cycle(_shared(), [_one(number, 2, queue_id=2) for number in (11, 12, 13)])
    assert [victims(each) for each in found] == [[4], [3], []]
    assert found[0] is not None
    assert found[0].evictions[0].receipt.entitlement is Entitlement.FAIR_SHARE


def test_a_weight_changes_what_is_even() -> None:
    found = ask_in_one_cycle(_shared(weight=3), [_one(number, 2, queue_id=2) for number in (11, 12, 13, 14)])
    assert [victims(each) for each in found] == [[4], [3], [2], []]
    assert victims(ask(_shared(weight=0), _one(11, 2, queue_id=2))) == []


def test_fair_share_leaves_the_nominal_quota_of_others_alone() -> None:
    made = site(
        [node(1, 8)],
        [
            queue(1, nominal={"mx": 8}, cohort=1),
            queue(2, nominal={}, cohort=1, reclaim=Reclaim.FAIR_SHARE),
        ],
    )
    run(made, *(_one(number, 2) for number in (1, 2, 3, 4)))
    assert victims(ask(made, _one(9, 2, queue_id=2))) == []


def test_a_price_may_forbid_to_share_out_but_not_to_reclaim() -> None:
    dear, cheap = Policy(fair_share_price_seconds=300), Policy(fair_share_price_seconds=400)
    assert victims(ask(_shared(), _one(9, 2, queue_id=2), policy=dear)) == []
    assert victims(ask(_shared(), _one(9, 2, queue_id=2), policy=cheap)) == [4], "2 GPUs for 160 s"
    assert victims(ask(_cohort(Reclaim.ANY), _one(9, 2, queue_id=2), policy=dear)) == [4]
    assert victims(ask(_cohort(Reclaim.FAIR_SHARE), _one(9, 2, queue_id=2), policy=dear)) == [4]


def test_who_has_just_begun_is_spared_for_a_while() -> None:
    made = _full(min_runtime_seconds=300)
    assert victims(ask(made, _one(9, priority=5), at=299)) == []
    assert victims(ask(made, _one(9, priority=5), at=300)) == [1]


def test_who_was_preempted_today_is_spared() -> None:
    made = _full(evictions_per_day=2)
    change(made, 1, preempted_at=(after(-86_399), after(-5)))
    change(made, 2, preempted_at=(after(-5),))
    assert victims(ask(made, _one(9, priority=5), at=0)) == [2]
    assert victims(ask(made, _one(9, priority=5), at=1)) == [1], "the first was a day ago"


@pytest.mark.parametrize(("delay", "found"), [(0, [4]), (200, []), (100, [4])])
def test_nominal_quota_waits_for_them_only_for_a_stated_time(delay: float, found: list[int]) -> None:
    made = _cohort(Reclaim.ANY, min_runtime_seconds=1000)
    policy = Policy(reclaim_delay_seconds=delay)
    assert victims(ask(made, _one(9, 2, queue_id=2), at=100, policy=policy)) == found


def test_who_may_not_be_preempted_takes_nominal_quota_only() -> None:
    def fixed(gpus: int) -> Group:
        return _with(_one(9, gpus, queue_id=2), is_preemptible=False)

    assert victims(ask(_shared(), fixed(2))) == []
    assert victims(ask(_cohort(Reclaim.FAIR_SHARE), fixed(4))) == [3, 4]


def test_who_may_not_be_preempted_borrows_nothing_that_is_free_either() -> None:
    queues = [queue(1, nominal={"mx": 2}, cohort=1), queue(2, nominal={"mx": 6}, cohort=1)]
    made = site([node(1, 8)], queues, _with(_one(1, 3), is_preemptible=False), _one(2, 3, queue_id=1))
    made.submit(_with(_one(3, 6, queue_id=2), is_preemptible=False))
    made.cycle()
    assert made.running() == {3: {"n1": 6}}
    made.submit(_with(_one(4, 2), is_preemptible=False))
    made.cycle()
    assert made.running() == {3: {"n1": 6}, 4: {"n1": 2}}
    alone = site([node(1, 8)], [queue(1)], _with(_one(1, 3), is_preemptible=False))
    alone.cycle()
    assert alone.running() == {1: {"n1": 3}}, "without a quota there is nothing to borrow"


def test_the_models_that_are_preferred_decide_between_equals() -> None:
    def made() -> Site:
        found = site([node(1, 2), node(2, 2, model="my")], [queue(1, preempt_within=LOWER)])
        run(found, gang(1, role(1, 2, models=["mx"])), gang(2, role(1, 2, models=["my"])))
        return found

    assert victims(ask(made(), gang(9, role(1, 2, models=["my", "mx"]), priority=1))) == [2]
    assert victims(ask(made(), gang(9, role(1, 2, models=["mx", "my"]), priority=1))) == [1]
