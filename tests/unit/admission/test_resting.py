"""Elastic groups that were resized a short while ago: a claimant waits for their surplus rather than have
anybody evicted whom that would spare, but not for long."""

from __future__ import annotations

from typing import Any

from service.admission.plan import Plan
from service.admission.policy import DEFAULT
from service.admission.world import Changes, Node
from service.domain.queue import PreemptWithin
from service.domain.reasons import Code
from service.domain.shape import Sizing
from service.domain.wording import message
from tests.builders import Group, Site, after, configuration, gang, node, queue, role, site
from tests.unit.admission.preempting import change

INTERVAL = DEFAULT.resize_interval_seconds


def _elastic(group_id: int, count: int, **fields: Any) -> Group:
    return gang(group_id, role(count, least=2), sizing=Sizing.WHILE_RUNNING, **fields)


def _resized(*groups: Group, at: float = 0, gpus: int = 8, **policy: Any) -> Site:
    """The groups run on one node that they fill; elastic ones were resized at this instant."""
    made = site([node(1, gpus)], [queue(1, preempt_within=PreemptWithin.LOWER_PRIORITY, **policy)], *groups)
    made.cycle()
    elastic = [group.row.group_id for group in groups if group.shape.sizing is not None]
    made.settle(*elastic)
    for group_id in elastic:
        change(made, group_id, resized_at=after(at))
    return made


def _given_up(plan: Plan) -> dict[int, int]:
    return {resize.unit_id >> 20: len(resize.dropped) for resize in plan.resizes}


def _evicted(plan: Plan) -> list[int]:
    return [eviction.unit_id >> 20 for eviction in plan.evictions]


def test_its_surplus_is_waited_for_where_that_spares_it() -> None:
    made = _resized(_elastic(1, 8))
    made.submit(gang(2, role(2), priority=5, at=20))
    plan = made.cycle(20)
    assert (plan.resizes, plan.evictions) == ((), ())
    blocker = made.blocker(2, Code.PREEMPTION_DELAYED)
    assert message(blocker.code, have=made.have(blocker), scope=blocker.scope) == (
        "1 group would give up 2 GPUs for it, but not before 2030-01-01T00:10:00+00:00: "
        "1 was resized less than 10 minutes ago"
    )
    assert plan.look_at == after(INTERVAL)
    assert made.cycle(INTERVAL - 1).resizes == ()
    plan = made.cycle(INTERVAL)
    assert (_given_up(plan), plan.evictions) == ({1: 2}, ())


def test_it_goes_whole_at_once_where_waiting_would_not_spare_it() -> None:
    made = _resized(_elastic(1, 8))
    made.submit(gang(2, role(7), priority=5, at=20))
    assert _evicted(made.cycle(20)) == [1]


def test_another_group_is_spared_by_it_too() -> None:
    made = _resized(_elastic(1, 5), gang(3, role(3)))
    made.submit(gang(2, role(3), priority=5, at=20))
    assert made.cycle(20).evictions == ()
    plan = made.cycle(INTERVAL)
    assert (_given_up(plan), plan.evictions) == ({1: 3}, ())


def test_nobody_waits_for_a_surplus_that_costs_more_than_who_goes_now() -> None:
    made = _resized(_elastic(1, 5, priority=1), gang(3, role(3)))
    made.submit(gang(2, role(3), priority=5, at=20))
    assert _evicted(made.cycle(20)) == [3], "of lower priority than the surplus"


def test_who_has_waited_that_long_already_waits_no_more() -> None:
    made = _resized(_elastic(1, 8), at=300)
    made.submit(gang(2, role(2), priority=5, at=0))
    plan = made.cycle(310)
    assert (plan.resizes, _evicted(plan)) == ((), [1]), "it has waited for 310 s, and would for 590 more"


def test_a_resize_for_somebody_else_is_waited_for_once() -> None:
    """Whoever comes first at the end of the interval takes the surplus; the others do not wait again."""
    made = _resized(_elastic(1, 8))
    made.submit(gang(2, role(2), priority=5, at=20), gang(3, role(2), priority=5, at=21))
    plan = made.cycle(30)
    assert (plan.resizes, plan.evictions) == ((), ())
    plan = made.cycle(INTERVAL)
    assert (_given_up(plan), plan.evictions) == ({1: 2}, ())
    made.settle(1)
    plan = made.cycle(INTERVAL + 1)
    assert [admission.group_id for admission in plan.admissions] == [2]
    assert (plan.resizes, _evicted(plan)) == ((), [1])


def test_who_comes_with_the_claimant_that_is_served_waits_for_the_next_resize() -> None:
    made = _resized(_elastic(1, 6), gang(4, role(2)), at=-INTERVAL)
    made.submit(gang(2, role(2), priority=5, at=10), gang(3, role(2), priority=5, at=10))
    plan = made.cycle(11)
    assert (_given_up(plan), plan.evictions) == ({1: 2}, ()), "also group 4 is spared"
    scope = made.blocker(3, Code.PREEMPTION_DELAYED).scope
    assert (scope["until"], scope["resize_interval"]) == (after(611).isoformat(timespec="seconds"), "1")
    plan = made.cycle(12)
    assert (plan.resizes, plan.evictions) == ((), ()), "while its members stop, too"
    made.settle(1)
    assert [admission.group_id for admission in made.cycle(20).admissions] == [2]
    plan = made.cycle(611)
    assert (_given_up(plan), plan.evictions) == ({1: 2}, ())


def test_what_it_gives_up_already_is_not_counted_twice() -> None:
    """Two of six stop; whoever needs five gets no more than the four that are left, and what is free."""
    made = _resized(_elastic(1, 6), gang(4, role(2), priority=9), at=-INTERVAL)
    made.submit(gang(2, role(2), priority=5, at=10))
    assert _given_up(made.cycle(11)) == {1: 2}
    made.submit(gang(3, role(5), priority=5, at=12), gang(5, role(4), priority=5, at=13))
    before = made.world.snapshot()
    plan = made.cycle(14)
    assert _evicted(plan) == [1]
    assert [claim.unit_id >> 20 for claim in plan.claims_made] == [5]
    assert made.world.snapshot().used == before.used


def test_whose_surplus_is_waited_for_does_not_grow() -> None:
    """Of two that are needed together one could be resized at once: growth would put the claimant off."""

    def nodes(others: int) -> list[Node]:
        return [node(1, others, labels={"zone": "b"}), node(2, 8, labels={"zone": "a"})]

    queues = [queue(1, preempt_within=PreemptWithin.LOWER_PRIORITY)]
    made = site(nodes(1), queues, _elastic(1, 4), _elastic(2, 9))
    made.cycle()
    made.settle(1, 2)
    change(made, 1, resized_at=after(0))
    change(made, 2, resized_at=after(-300))
    assert (made.size(1), made.size(2)) == ((4,), (5,))
    made.submit(gang(9, role(5, labels={"zone": "a"}), priority=5, at=20))
    plan = made.cycle(20)
    assert (plan.resizes, plan.evictions) == ((), ())
    scope = made.blocker(9, Code.PREEMPTION_DELAYED).scope
    assert (scope["groups"], scope["resize_interval"]) == ("2", "2")
    made.world.apply(Changes(configuration=configuration(nodes(3), queues, version=2)))
    assert made.cycle(300).resizes == ()
    assert _told_to_grow(made, 2) == [Code.WAITING_FOR_TURN]
    plan = made.cycle(INTERVAL)
    assert (_given_up(plan), plan.evictions) == ({1: 2, 2: 3}, ())


def _told_to_grow(made: Site, group_id: int) -> list[Code]:
    assert made.plan is not None
    verdict = made.plan.queues[1]
    return [blocker.code for blocker in verdict.verdicts[dict(verdict.growing)[group_id]]]


def test_a_surplus_is_there_before_its_group_may_be_evicted_again() -> None:
    """One gives up its surplus at any time, but is not evicted; the other has not run for long enough."""
    made = _resized(
        _elastic(1, 4), gang(4, role(4)), at=-INTERVAL, evictions_per_day=1, min_runtime_seconds=300
    )
    change(made, 1, admitted_at=after(-1000), preempted_at=(after(-100),))
    made.submit(gang(2, role(6), priority=5, at=20))
    made.cycle(20)
    scope = made.blocker(2, Code.PREEMPTION_DELAYED).scope
    assert (scope["until"], scope["groups"]) == (after(300).isoformat(timespec="seconds"), "2")
    plan = made.cycle(300)
    assert (_given_up(plan), _evicted(plan)) == ({1: 2}, [4])
