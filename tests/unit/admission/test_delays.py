"""Claimants to whom others would give way later: from when on, who, and what keeps them until then."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from service.admission.cycle import plan_cycle
from service.admission.policy import Policy
from service.admission.preemption.preempt import Preemptor
from service.admission.quota.book import QuotaBook
from service.admission.resident import World
from service.admission.world import Changes
from service.domain.queue import Order, PreemptWithin, Reclaim
from service.domain.reasons import Code
from service.domain.wording import message
from tests.builders import Group, Site, after, gang, node, queue, role, site
from tests.unit.admission.preempting import ask, change, run
from tests.unit.admission.test_preemption_oracle import occupied_case

LOWER = PreemptWithin.LOWER_PRIORITY
DELAYED = Code.PREEMPTION_DELAYED


def _full(*, order: Order = Order.BEST_EFFORT, **policy: Any) -> Site:
    """One node of 4, taken by groups 1 to 4, one GPU each, that began at 0, 10, 20, 30."""
    made = site([node(1, 4)], [queue(1, order=order, preempt_within=LOWER, **policy)])
    for number in (1, 2, 3, 4):
        run(made, gang(number), at=10 * (number - 1))
    return made


def _told(made: Site, group_id: int) -> str:
    blocker = made.blocker(group_id, DELAYED)
    return message(
        DELAYED, need=blocker.need, have=made.have(blocker), scope=blocker.scope, holders=blocker.holders
    )


def _evicted(made: Site) -> list[int]:
    assert made.plan is not None
    return [eviction.unit_id >> 20 for eviction in made.plan.evictions]


def test_a_minimum_runtime_is_told_with_its_end() -> None:
    made = _full(min_runtime_seconds=300)
    made.submit(gang(9, role(1, 2), priority=5))
    plan = made.cycle(100)
    assert made.codes(9) == [Code.INSUFFICIENT_GPUS, DELAYED]
    blocker = made.blocker(9, DELAYED)
    assert (blocker.need, made.have(blocker), blocker.holders) == (2, 2, ("g1", "g2"))
    assert blocker.scope == {
        "resource": "gpus",
        "until": after(310).isoformat(timespec="seconds"),
        "groups": "2",
        "min_runtime": "2",
    }
    assert _told(made, 9) == (
        "2 groups would give up 2 GPUs for it, but not before 2030-01-01T00:05:10+00:00: "
        "2 have not run for their queue's min_runtime yet"
    )
    assert plan.look_at == after(310), "the cycle looks again then"
    made.cycle(309)
    assert _evicted(made) == []
    assert made.codes(9) == [Code.INSUFFICIENT_GPUS, DELAYED]
    plan = made.cycle(310)
    assert _evicted(made) == [1, 2]
    assert DELAYED not in made.codes(9)
    assert plan.look_at is None


def test_evictions_of_the_day_are_told_with_their_end() -> None:
    made = _full(evictions_per_day=2)
    change(made, 1, preempted_at=(after(-80_000), after(-5)))
    change(made, 2, preempted_at=(after(-70_000), after(-50_000), after(-5)))
    change(made, 3, is_preemptible=False)
    change(made, 4, priority=7)
    made.submit(gang(9, priority=5), gang(8, role(1, 2), priority=5, at=1))
    plan = made.cycle(100)
    assert _told(made, 9) == (
        "1 group would give up 1 GPU for it, but not before 2030-01-01T01:46:40+00:00: "
        "1 has given way as often as its queue's evictions_per_day allows"
    )
    assert made.blocker(9, DELAYED).scope["until"] == after(6400).isoformat(timespec="seconds")
    assert made.blocker(8, DELAYED).scope["until"] == after(36_400).isoformat(timespec="seconds")
    assert made.have(made.blocker(8, DELAYED)) == 2
    assert plan.look_at == after(6400)


def test_several_rules_are_told_together() -> None:
    made = _full(evictions_per_day=1, min_runtime_seconds=1000)
    change(made, 1, preempted_at=(after(-86_000),))
    made.submit(gang(9, role(1, 4), priority=5))
    made.cycle(100)
    scope = made.blocker(9, DELAYED).scope
    assert (scope["groups"], scope["min_runtime"], scope["evictions_per_day"]) == ("4", "4", "1")
    assert scope["until"] == after(1030).isoformat(timespec="seconds")


def test_only_who_stands_like_the_claimant_is_told_so() -> None:
    made = _full(min_runtime_seconds=300)
    held = gang(13, priority=5, at=1, is_held=True)
    weak = gang(14, priority=0, at=1)
    never_ran = gang(15, priority=5, at=1)
    made.submit(gang(9, priority=5), gang(10, priority=5, at=1), held, weak)
    made.submit(Group(replace(never_ran.row, has_never_run=True), never_ran.shape))
    made.cycle(100)
    assert DELAYED in made.codes(9)
    assert DELAYED in made.codes(10)
    assert [made.codes(number) for number in (13, 14, 15)] == [[Code.INSUFFICIENT_GPUS]] * 3


def test_behind_the_head_of_a_strict_queue_it_is_told_with_the_turn() -> None:
    made = _full(min_runtime_seconds=300, order=Order.STRICT)
    made.submit(gang(9, priority=5), gang(10, priority=5, at=1))
    made.cycle(100)
    assert made.codes(9) == [Code.INSUFFICIENT_GPUS, DELAYED]
    assert made.codes(10) == [Code.INSUFFICIENT_GPUS, DELAYED, Code.WAITING_FOR_TURN]


def test_nothing_is_told_where_nobody_would_give_way_later_either() -> None:
    made = _full(min_runtime_seconds=300)
    change(made, 1, is_preemptible=False)
    made.submit(gang(9, role(1, 4), priority=5), gang(10, priority=0, at=1))
    plan = made.cycle(100)
    assert made.codes(9) == made.codes(10) == [Code.INSUFFICIENT_GPUS]
    assert plan.look_at is None


def test_who_is_not_kept_is_among_those_who_would_give_way() -> None:
    made = _full(min_runtime_seconds=300)
    made.submit(gang(9, role(1, 4), priority=5))
    made.cycle(325)
    scope = made.blocker(9, DELAYED).scope
    assert (scope["groups"], scope["min_runtime"]) == ("4", "1")
    assert scope["until"] == after(330).isoformat(timespec="seconds")


def test_cpus_are_told_where_no_gpus_are_asked_for() -> None:
    made = site([node(1, 4, cpus=4)], [queue(1, preempt_within=LOWER, min_runtime_seconds=300)])
    run(made, gang(1, role(1, 0, cpus=3)))
    made.submit(gang(9, role(1, 0, cpus=2), priority=5))
    made.cycle(100)
    assert _told(made, 9) == (
        "1 group would give up 3 CPUs for it, but not before 2030-01-01T00:05:00+00:00: "
        "1 has not run for its queue's min_runtime yet"
    )


def _lent(**policy: Any) -> Site:
    """8 GPUs: queue 1 borrows 4 of them; queue 2 takes its own 4 back."""
    made = site(
        [node(1, 8)],
        [
            queue(1, nominal={"mx": 4}, cohort=1, **policy),
            queue(2, nominal={"mx": 4}, cohort=1, reclaim=Reclaim.ANY),
        ],
    )
    run(made, *(gang(number, role(1, 2)) for number in (1, 2, 3, 4)))
    return made


@pytest.mark.parametrize(("delay", "until"), [(200, 200), (2000, 1000)])
def test_who_takes_nominal_quota_back_is_told_its_own_bound(delay: int, until: int) -> None:
    made, policy = _lent(min_runtime_seconds=1000), Policy(reclaim_delay_seconds=delay)
    made.submit(gang(9, role(1, 4), queue_id=2))
    made.plan = plan_cycle(made.world, after(100), policy=policy)
    assert made.blocker(9, DELAYED).scope["until"] == after(until).isoformat(timespec="seconds")
    assert ask(made, _group(made, 9), at=until - 1, policy=policy) is None
    assert ask(made, _group(made, 9), at=until, policy=policy) is not None


def test_who_takes_nominal_quota_back_without_a_delay_waits_for_nobody() -> None:
    made = _lent(min_runtime_seconds=1000)
    made.submit(gang(9, role(1, 4), queue_id=2))
    made.cycle(100)
    assert _evicted(made) == [3, 4]


def test_a_claimant_that_goes_takes_its_delay_with_it() -> None:
    made = _full(min_runtime_seconds=300)
    claimant = gang(9, priority=5)
    made.submit(claimant, gang(10, priority=0, at=1))
    before = made.cycle(100)
    made.world.apply(Changes(gone=frozenset([claimant.row.id])))
    plan = made.cycle(101)
    assert (before.look_at, plan.look_at) == (after(300), None)
    assert made.codes(10) == [Code.INSUFFICIENT_GPUS]


def _group(made: Site, group_id: int) -> Group:
    row = next(row for row in made.world.pending.values() if row.group_id == group_id)
    return Group(row, made.world.shapes[row.shape_id])


def test_on_random_clusters_the_instant_is_the_first_at_which_others_give_way() -> None:
    """Nobody would give way a moment before it, and at it somebody does; where none is told, nobody ever
    would while nothing but time changes."""
    told = several = 0
    for number in range(200):
        case = occupied_case(number)
        if case is None:
            continue
        world, heads = case
        rng = random.Random(number)
        world.apply(_protected(rng, world))
        policy = Policy(reclaim_delay_seconds=rng.choice((0, 0, 400, 3000)))
        made = Site(world)
        for head in heads:
            ends = sorted(_ends(world, head, policy))
            made.submit(head)
            is_now, until = _asked(made, head, at=1000, policy=policy)
            gives = [end for end in ends if _asked(made, head, at=end, policy=policy)[0]]
            assert until == (None if is_now or not gives else after(gives[0])), f"case {number}"
            told += until is not None
            several += len(gives) > 0 and gives[0] != ends[0]
            world.apply(Changes(gone=frozenset([head.row.id])))
    print(f"{told} told, {several} of them not the first instant")
    assert told > 20
    assert several > 4


def _protected(rng: random.Random, world: World) -> Changes:
    before = world.configuration
    queues = {
        key: replace(
            each,
            policy=replace(
                each.policy,
                min_runtime_seconds=rng.choice((0, 300, 800, 1500)),
                evictions_per_day=rng.choice((None, 1, 2)),
            ),
        )
        for key, each in before.queues.items()
    }
    running = {
        unit.id: replace(
            unit, preempted_at=tuple(after(-rng.randint(1, 80_000)) for _ in range(rng.choice((0, 0, 1, 2))))
        )
        for unit in world.running.values()
    }
    return Changes(configuration=replace(before, queues=queues, version=before.version + 1), running=running)


def _ends(world: World, head: Group, policy: Policy) -> set[float]:
    """Seconds after NOW at which anything at all about who is protected changes."""
    ends = {(head.row.submitted_at - after(0)).total_seconds() + policy.reclaim_delay_seconds}
    for unit in world.running.values():
        least = world.configuration.queues[unit.queue_id].policy.min_runtime_seconds
        ends.add((unit.admitted_at - after(0)).total_seconds() + least)
        ends.update((at - after(0)).total_seconds() + 86_400 for at in unit.preempted_at)
    return {end for end in ends if end > 1000}


def _asked(made: Site, head: Group, *, at: float, policy: Policy) -> tuple[bool, datetime | None]:
    """Whether others give way to it, and else from when on they would."""
    quota = QuotaBook(made.world.quota)
    preemptor = Preemptor(made.world, quota, policy=policy, now=after(at))
    try:
        preemption = preemptor.plan(made.world.pending[head.row.id])
    finally:
        quota.give_back()
        made.world.capacity.give_back()
    delay = preemptor.delays.found.get(head.row.id)
    return preemption is not None, None if delay is None else delay.until


def test_a_queue_in_which_nothing_has_changed_is_not_told_its_delays_again() -> None:
    made = _full(min_runtime_seconds=300)
    made.submit(gang(9, role(1, 2), priority=5))
    before = made.cycle(100).queues[1]
    assert made.cycle(101).queues[1] is before
    made.submit(gang(10, role(1, 2), priority=5))
    assert made.cycle(102).queues[1] is not before
    assert DELAYED in made.codes(9)
    assert DELAYED in made.codes(10)
    made.end(1)
    made.end(2)
    made.cycle(103)
    assert made.blocker(10, DELAYED).holders == ("g3", "g4")
