"""Situations from the shared scenarios that the planner alone decides: who is admitted, and which
reason comes first for those who wait."""

from __future__ import annotations

from dataclasses import replace

from service.admission.world import Changes
from service.domain.queue import Order, Stop
from service.domain.reasons import Code
from tests.builders import configuration, gang, independent, node, queue, role, site

_Q = queue(nominal={"mx": 1000})


def test_two_gangs_that_each_need_every_node() -> None:
    at = site([node(i) for i in (1, 2, 3, 4)], [_Q], gang(1, role(4, 8)), gang(2, role(4, 8)))
    at.cycle()
    assert at.running() == {1: {"n1": 8, "n2": 8, "n3": 8, "n4": 8}}
    assert at.codes(2) == [Code.INSUFFICIENT_GPUS]
    at.end(1)
    at.cycle()
    assert at.running() == {2: {"n1": 8, "n2": 8, "n3": 8, "n4": 8}}


def test_free_gpus_that_add_up_but_are_scattered() -> None:
    at = site([node(i) for i in (1, 2, 3, 4)], [_Q], *(gang(i, role(1, 6)) for i in (1, 2, 3, 4)))
    at.cycle()
    at.submit(gang(5, role(1, 8)))
    at.cycle()
    assert at.codes(5) == [Code.FRAGMENTED]
    blocker = at.blocker(5, Code.FRAGMENTED)
    assert (blocker.need, at.have(blocker)) == (8, 8)
    at.end(3)
    at.cycle()
    assert sum(at.running()[5].values()) == 8


def test_a_required_domain_is_never_crossed() -> None:
    racks = [("r1", True), ("r2", True), ("r3", True), ("r1", False)]
    nodes = [
        node(i, 2, labels={"rack": rack}, is_ready=ready) for i, (rack, ready) in enumerate(racks, start=1)
    ]
    at = site(nodes, [_Q], gang(1, role(2, 2), required="rack"), levels=("rack", "host"))
    at.cycle()
    assert at.codes(1) == [Code.TOPOLOGY_UNSATISFIED, Code.NODES_UNAVAILABLE]
    blocker = at.blocker(1, Code.TOPOLOGY_UNSATISFIED)
    assert (blocker.need, at.have(blocker), blocker.scope["level"]) == (4, 2, "rack")
    up = [*nodes[:3], replace(nodes[3], is_ready=True)]
    at.world.apply(Changes(configuration=configuration(up, [_Q], levels=("rack", "host"), version=2)))
    at.cycle()
    assert at.running() == {1: {"n1": 2, "n4": 2}}


def test_a_node_that_is_down_is_named() -> None:
    nodes = [node(1), node(2, labels={"zone": "z2"}, is_ready=False)]
    at = site(nodes, [_Q], gang(1, role(2, 8)), gang(2, role(1, 8, labels={"zone": "z2"})))
    at.cycle()
    assert at.running() == {}
    assert at.codes(1) == [Code.INSUFFICIENT_GPUS, Code.NODES_UNAVAILABLE]
    assert at.codes(2) == [Code.NODES_UNAVAILABLE]
    assert at.blocker(2, Code.NODES_UNAVAILABLE).scope["unavailable"] == "n2"


def test_equal_priority_lists_the_oldest_first_in_a_strict_queue() -> None:
    strict = queue(nominal={"mx": 1000}, order=Order.STRICT)
    at = site([node(1)], [strict], gang(1, role(1, 8), priority=50))
    at.cycle()
    at.submit(
        gang(2, role(1, 8), priority=16, at=1),
        gang(3, role(1, 8), priority=16, at=2),
        gang(4, role(1, 8), priority=20, at=3),
        gang(5, role(1, 8), priority=16, at=4),
    )
    at.cycle(5)
    assert at.order() == [4, 2, 3, 5]
    assert at.codes(4) == [Code.INSUFFICIENT_GPUS]
    for waiting in (2, 3, 5):
        assert at.codes(waiting) == [Code.INSUFFICIENT_GPUS, Code.WAITING_FOR_TURN]
        assert at.blocker(waiting, Code.WAITING_FOR_TURN).holders == ("g4",)
    admitted = []
    for ended in (1, 4, 2, 3):
        at.end(ended)
        admitted += [admission.group_id for admission in at.cycle(10).admissions]
    assert admitted == [4, 2, 3, 5]


def test_a_lowered_quota_is_named_until_it_is_raised_again() -> None:
    nodes = [node(1), node(2, model="my")]
    at = site(nodes, [queue(nominal={"mx": 8, "my": 8})], gang(1, role(1, 8, models=["my"])))
    at.cycle()
    at.submit(gang(2, role(1, 8, models=["my"])))
    at.cycle()
    assert at.codes(2) == [Code.QUOTA_EXCEEDED, Code.INSUFFICIENT_GPUS]

    lowered = queue(nominal={"mx": 8, "my": 0})
    at.world.apply(Changes(configuration=configuration(nodes, [lowered], version=2)))
    at.end(1)
    at.cycle()
    assert at.codes(2) == [Code.NEVER_FITS, Code.QUOTA_EXCEEDED]
    blocker = at.blocker(2, Code.QUOTA_EXCEEDED)
    assert (blocker.need, at.have(blocker), at.limit(blocker), blocker.scope["flavor"]) == (8, 0, 0, "my")

    raised = queue(nominal={"mx": 8, "my": 8})
    at.world.apply(Changes(configuration=configuration(nodes, [raised], version=3)))
    at.cycle()
    assert at.running() == {2: {"n2": 8}}


def test_a_group_that_fits_is_found_behind_a_thousand_that_do_not() -> None:
    nodes = [node(1), node(2, model="my"), node(3, model="mz")]
    quota = queue(nominal={"mx": 8, "my": 8, "mz": 8})
    at = site(nodes, [quota], gang(1, role(1, 8, models=["mx"])))
    at.cycle()
    at.submit(*(gang(i, role(1, 8, models=["mx"])) for i in range(2, 1002)))
    at.submit(gang(1002, role(1, 8, models=["my"])))
    plan = at.cycle()
    assert [admission.group_id for admission in plan.admissions] == [1002]
    assert at.order() == list(range(2, 1002))
    assert at.codes(2) == [Code.QUOTA_EXCEEDED, Code.INSUFFICIENT_GPUS]


def test_each_waiting_group_has_one_reason_and_a_quiet_cycle_changes_nothing() -> None:
    at = site([node(1)], [_Q], gang(1, role(1, 8)))
    at.cycle()
    at.submit(*(gang(i, role(1, 8)) for i in range(2, 202)))
    first = at.cycle()
    assert all(at.codes(i) == [Code.INSUFFICIENT_GPUS] for i in range(2, 202))
    for second in range(1, 51):
        plan = at.cycle(second)
        assert plan == first
        assert plan.queues[1] is first.queues[1]


def test_a_range_is_admitted_lowest_index_first_and_stays_one_entry() -> None:
    at = site([node(1, 4)], [_Q], independent(1, role(6, 1)), gang(2, role(4, 1)))
    plan = at.cycle()
    assert [admission.index for admission in plan.admissions] == [0, 1, 2, 3]
    assert at.order() == [1, 2]
    assert at.codes(1) == at.codes(2) == [Code.INSUFFICIENT_GPUS]
    need = [at.blocker(i, Code.INSUFFICIENT_GPUS).need for i in (1, 2)]
    assert need == [1, 4]
    (row,) = (row for row in at.world.pending.values() if row.group_id == 1)
    assert (row.first_index, row.last_index, row.version) == (4, 5, 2)


def test_a_launcher_without_gpus_leaves_the_cpus_to_the_workers() -> None:
    nodes = [node(1, 4, cpus=32, memory_gib=256), node(2, 0, cpus=16, memory_gib=64)]
    roles = (
        role(1, 0, name="launcher", cpus=8, memory_gib=8),
        role(4, 1, name="worker", cpus=8, memory_gib=32),
    )
    at = site(nodes, [_Q], gang(1, *roles), gang(2, *roles))
    at.cycle()
    assert at.running() == {1: {"n1": 4, "n2": 0}}
    assert at.families(2)[0] == "CAPACITY"
    on_c1 = {"host": "n2"}
    at.submit(gang(3, role(1, 0, cpus=8, labels=on_c1)))
    at.cycle()
    at.submit(gang(4, role(1, 0, cpus=4, labels=on_c1), priority=5))
    at.end(1)
    at.cycle()
    assert at.running() == {3: {"n2": 0}, 4: {"n2": 0}}
    assert at.codes(2) == [Code.INSUFFICIENT_CPU]
    blocker = at.blocker(2, Code.INSUFFICIENT_CPU)
    assert (blocker.need, at.have(blocker)) == (40_000, 36_000)
    at.end(4)
    at.cycle()
    assert at.running()[2] == {"n1": 4, "n2": 0}


def test_a_cordoned_node_is_not_used() -> None:
    row, zone = {"row": "r1"}, {"zone": "z1"}
    nodes = [
        node(1, 4, labels=row),
        node(2, 6, labels=row | zone, is_cordoned=True),
        node(3, 4, labels=zone),
    ]
    at = site(
        nodes,
        [_Q],
        gang(1, role(2, 4, labels=row)),
        independent(2, role(3, 2, labels=zone)),
    )
    at.cycle()
    assert at.running() == {2: {"n3": 4}}
    assert at.codes(1) == at.codes(2) == [Code.INSUFFICIENT_GPUS, Code.NODES_UNAVAILABLE]


def test_a_batch_is_taken_in_its_order() -> None:
    at = site(
        [node(1, 4)],
        [_Q],
        gang(1, role(1, 4)),
        independent(2, role(3, 1)),
        gang(3, role(2, 2)),
        gang(4, role(1, 1), priority=5),
        gang(5, role(1, 1), at=1),
    )
    at.cycle(1)
    assert at.running() == {2: {"n1": 3}, 4: {"n1": 1}}
    assert at.order() == [1, 3, 5]
    assert {at.families(i)[0] for i in (1, 3, 5)} == {"CAPACITY"}


def test_a_stopped_queue_starts_nothing_and_blocks_nobody() -> None:
    at = site(
        [node(1)],
        [queue(1, stop=Stop.HOLD), queue(2)],
        gang(1, role(), priority=9),
        gang(2, role(), queue_id=2),
    )
    plan = at.cycle()
    assert at.running() == {2: {"n1": 1}}
    assert at.codes(1) == [Code.QUEUE_STOPPED]
    assert not next(iter(plan.queues[1].order)).is_eligible
