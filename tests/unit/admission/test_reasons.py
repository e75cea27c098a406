"""All that binds a waiting group, with its numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.admission.claims.held_for import told_to
from service.admission.cycle import plan_cycle
from service.admission.nodes.capacity import MAX_FIELDS
from service.admission.plan import Blocker
from service.admission.world import Changes, Node, Queue
from service.domain.claim import Claim, ClaimCause
from service.domain.node import Place
from service.domain.queue import Order
from service.domain.reasons import Code
from service.domain.shape import RoleShape
from service.domain.unit import unit_id
from service.domain.wording import message
from tests.builders import Group, Site, after, configuration, gang, independent, node, queue, role, site


def _told(at: Site, group_id: int) -> list[str]:
    return [
        message(
            blocker.code,
            need=blocker.need,
            have=at.have(blocker),
            limit=at.limit(blocker),
            scope=blocker.scope,
            holders=blocker.holders,
        )
        for blocker in at.blockers(group_id)
    ]


@pytest.mark.parametrize(
    ("nodes", "queues", "group", "expected"),
    [
        (
            [node(1, 4, unhealthy=[0], model="H100-80GB"), node(2, 4, unhealthy=[0, 1], model="H100-80GB")],
            [queue()],
            gang(1, role(4, 2, models=["H100-80GB"])),
            [
                "needs 8 GPUs of H100-80GB, 5 GPUs are free on the 2 nodes that it may use",
                "3 GPUs of H100-80GB that it could use are unhealthy or lost",
            ],
        ),
        ([], [queue()], gang(1), ["no node is registered"]),
        (
            [node(1, 4, is_cordoned=True)],
            [queue()],
            gang(1, role(1, 1)),
            ["all nodes that it may use are down or cordoned (n1)"],
        ),
        (
            [node(1, 4, is_ready=False), node(2, 4, is_cordoned=True), node(3, 0, cpus=8, memory_gib=8)],
            [queue()],
            gang(1, role(1, 1), role(1, 0, name="ps", cpus=1)),
            ["nodes that could hold it are down or cordoned (n1, n2): 8 GPUs there"],
        ),
        (
            [node(1, 4, unhealthy=[0, 1], lost=[2, 3]), node(2, 2, is_cordoned=True)],
            [queue()],
            gang(1, role(1, 4)),
            [
                "nodes that could hold it are down or cordoned (n2): 2 GPUs there",
                "4 GPUs that it could use are unhealthy or lost",
            ],
        ),
        (
            [node(1, 4, is_cordoned=True)],
            [queue()],
            gang(1, role(1, 0, cpus=0, memory_gib=0)),
            ["all nodes that it may use are down or cordoned (n1)"],
        ),
        (
            [node(1, 4)],
            [queue()],
            gang(1, role(1, 1, models=["H200"], min_gpu_memory_gib=100, labels={"zone": "z1"})),
            [
                "does not fit on the nodes as they are configured, even when all are idle",
                "no node has GPUs of H200 and GPU memory of at least 100 GiB and zone=z1",
            ],
        ),
        (
            [node(1, 4), node(2, 4)],
            [queue()],
            gang(1, role(1, 6)),
            [
                "needs 6 GPUs on one node, and the largest has 4 GPUs",
            ],
        ),
        (
            [node(1, 4)],
            [queue()],
            gang(1, role(5, 1)),
            [
                "needs 5 GPUs, and the 1 node that it may use have 4 GPUs together even when idle",
            ],
        ),
        (
            [node(1, 4, labels={"rack": "r1"}), node(2, 4, labels={"rack": "r2"})],
            [queue()],
            gang(1, role(2, 4), required="rack"),
            [
                "needs 8 GPUs on one rack, and the largest has 4 GPUs",
            ],
        ),
        (
            [node(1, 4)],
            [queue(nominal={})],
            gang(1, role(1, 4)),
            [
                "needs 4 GPUs, and queue q1 may never hold more than 0 GPUs of mx",
                "needs 4 GPUs of mx, and queue q1 has a quota of 0 for it",
            ],
        ),
        (
            [node(1, 4)],
            [queue(limit={"cpus": 1500})],
            gang(1, role(1, 4)),
            [
                "needs 4 CPUs, and queue q1 may never hold more than 1.5 CPUs",
                "needs 4 CPUs, queue q1 holds 0 CPUs of the 1.5 CPUs that it may hold",
            ],
        ),
        (
            [node(1, 2, is_cordoned=True), node(2, 2)],
            [queue()],
            independent(1, role(3, 2, memory_gib=300)),
            [
                "needs 300 GiB of memory on one node, and the largest has 256 GiB of memory",
            ],
        ),
    ],
)
def test_reasons_in_words(nodes: list[Node], queues: list[Queue], group: Group, expected: list[str]) -> None:
    at = site(nodes, queues, group, levels=("rack", "host"))
    at.cycle()
    assert _told(at, 1) == expected


def test_a_head_that_could_never_fit_does_not_hold_up_a_strict_queue() -> None:
    at = site([node(1, 4)], [queue(order=Order.STRICT)], gang(1, role(5, 1), priority=9), gang(2, role(1, 4)))
    at.cycle()
    assert at.running() == {2: {"n1": 4}}
    assert at.codes(1)[0] is Code.NEVER_FITS


def test_a_strict_queue_says_who_holds_the_others_up() -> None:
    at = site(
        [node(1, 4)],
        [queue(order=Order.STRICT), queue(2)],
        gang(1, role(1, 3), queue_id=2, priority=9),
        gang(2, role(1, 4), priority=5),
        gang(3, role(1, 1)),
        gang(4, role(1, 1), queue_id=2, at=1),
    )
    at.cycle()
    assert at.running() == {1: {"n1": 3}, 4: {"n1": 1}}
    assert at.codes(2) == [Code.INSUFFICIENT_GPUS]
    assert at.codes(3) == [Code.INSUFFICIENT_GPUS, Code.WAITING_FOR_TURN]
    assert _told(at, 3)[1] == "waits behind g2, for the queue is strict"


def test_a_cordoned_node_that_is_full_is_the_only_reason() -> None:
    at = site([node(1, 4)], [queue()], gang(1, role(1, 4)))
    at.cycle()
    cordoned = configuration([node(1, 4, is_cordoned=True)], [queue()], version=2)
    at.world.apply(Changes(configuration=cordoned))
    at.submit(gang(2, role(1, 1)))
    at.cycle()
    assert _told(at, 2) == ["all nodes that it may use are down or cordoned (n1)"]


def test_gpus_that_are_held_come_back_and_are_waited_for() -> None:
    at = site([node(1, 4, unhealthy=[2, 3])], [queue()], gang(1, role(1, 2)), gang(2, role(1, 2)))
    at.cycle()
    assert at.codes(2) == [Code.INSUFFICIENT_GPUS, Code.DEVICES_UNHEALTHY]
    at.world.apply(
        Changes(configuration=configuration([node(1, 4, unhealthy=[0, 1, 2, 3])], [queue()], version=2))
    )
    at.end(1)
    at.cycle()
    assert at.codes(2) == [Code.DEVICES_UNHEALTHY]


@pytest.mark.parametrize("order", list(Order))
def test_what_is_not_eligible_is_listed_at_its_place_and_blocks_nobody(order: Order) -> None:
    at = site(
        [node(1, 4)],
        [queue(order=order)],
        gang(1, role(1, 4), priority=9, is_held=True),
        gang(2, role(1, 4), priority=8, backoff_until=after(60)),
        gang(3, role(1, 4), priority=7),
    )
    plan = at.cycle()
    assert at.running() == {3: {"n1": 4}}
    assert [(entry.group_id, entry.is_eligible) for entry in plan.queues[1].order] == [(1, False), (2, False)]
    assert at.codes(1) == at.codes(2) == [Code.INSUFFICIENT_GPUS]
    assert at.cycle(59).queues[1] is at.cycle(59.5).queues[1]
    plan = at.cycle(60)
    assert [(entry.group_id, entry.is_eligible) for entry in plan.queues[1].order] == [(1, False), (2, True)]
    at.end(3)
    at.cycle(61)
    assert at.running() == {2: {"n1": 4}}
    assert at.codes(1) == [Code.INSUFFICIENT_GPUS]


def test_a_held_group_that_would_fit_has_no_other_reason() -> None:
    at = site([node(1, 4)], [queue()], gang(1, is_held=True))
    at.cycle()
    assert at.codes(1) == []


def test_free_models_without_quota_are_named_as_what_binds() -> None:
    nodes = [node(1, 4, model="ma"), node(2, 4, model="mb")]
    quota = queue(nominal={"ma": 0, "mb": 4})
    at = site(nodes, [quota, queue(2)], gang(1, role(1, 4, models=["mb"]), queue_id=2))
    at.cycle()
    at.submit(gang(2, role(1, 4, models=["ma", "mb"])))
    at.cycle()
    assert at.codes(2) == [Code.QUOTA_EXCEEDED]
    assert at.blocker(2, Code.QUOTA_EXCEEDED).scope["flavor"] == "ma"


def test_what_a_quota_never_allows_has_its_numbers() -> None:
    """Every resource of which one unit is too much is told, and what is short right now beside it."""
    quota = queue(nominal={"mx": 2, "cpus": 3000, "memory": 8 * 1024})
    busy = gang(9, role(1, 4), queue_id=2)
    at = site([node(1, 4)], [quota, queue(2)], busy)
    at.cycle()
    at.submit(gang(1, role(1, 3, cpus=4, memory_gib=4)))
    at.cycle()
    never = [blocker for blocker in at.blockers(1) if blocker.code is Code.NEVER_FITS]
    assert {
        (each.scope["resource"], each.scope.get("flavor"), each.need, at.limit(each)) for each in never
    } == {("gpus", "mx", 3, 2), ("cpus", None, 4000, 3000)}
    assert at.codes(1)[2:] == [Code.QUOTA_EXCEEDED, Code.QUOTA_EXCEEDED, Code.INSUFFICIENT_GPUS]


def test_quota_that_is_only_for_the_wrong_nodes_has_its_numbers() -> None:
    """In sum the quotas suffice; of what is allowed the nodes have too little."""
    quota = queue(nominal={"ma": 2, "mb": 4})
    at = site([node(1, 4, model="ma"), node(2, 2, model="mb")], [quota], gang(1, role(4, 1)))
    at.submit(gang(2, role(6, 1)))
    at.cycle()
    never = [blocker for blocker in at.blockers(2) if blocker.code is Code.NEVER_FITS]
    assert [(each.need, at.limit(each), each.scope["flavor"]) for each in never] == [
        (6, 2, "ma"),
        (6, 4, "mb"),
    ]


def test_rows_of_one_shape_in_two_queues_are_blocked_by_their_own_quota() -> None:
    at = site(
        [node(1, 8)],
        [queue(1, nominal={"mx": 2}), queue(2, nominal={"mx": 8})],
        *(gang(number, role(1, 2), queue_id=1 + number % 2) for number in range(1, 7)),
    )
    at.cycle()
    assert sorted(at.running()) == [1, 2, 3, 5]
    assert at.codes(4) == at.codes(6) == [Code.QUOTA_EXCEEDED, Code.INSUFFICIENT_GPUS]


def test_numbers_follow_what_is_free_while_verdicts_stay_the_same_object() -> None:
    at = site([node(1, 8)], [queue()], gang(1, role(1, 3)), gang(2, role(1, 2)), gang(3, role(1, 8), at=1))
    at.cycle()
    at.cycle()
    before = at.cycle().queues[1]
    assert at.have(at.blocker(3, Code.INSUFFICIENT_GPUS)) == 3
    at.end(2)
    at.cycle()
    assert at.have(at.blocker(3, Code.INSUFFICIENT_GPUS)) == 5
    assert at.plan is not None
    assert at.plan.queues[1] is before


def test_scattered_places_in_words() -> None:
    at = site([node(1, 8), node(2, 8)], [queue()], *(gang(number, role(1, 5)) for number in (1, 2)))
    at.cycle()
    at.submit(gang(3, role(1, 6)), gang(4, role(3, 2), at=1))
    at.cycle()
    assert _told(at, 3) == [
        "needs 6 GPUs on one node: 6 GPUs are free on the 2 nodes that it may use, but scattered"
    ]
    (told,) = _told(at, 4)
    assert told.startswith("needs 6 GPUs, 2 GPUs for each member on one node: 6 GPUs are free on the 2 nodes")


@pytest.mark.parametrize("order", list(Order))
def test_what_is_left_out_of_a_cycle_is_listed_and_blocks_nobody(order: Order) -> None:
    at = site(
        [node(1, 8)],
        [queue(order=order)],
        gang(1, role(1, 4), priority=9),
        gang(2, role(1, 4)),
        gang(3, role(1, 4), at=1),
    )
    at.plan = plan_cycle(at.world, after(0), without={unit_id(1, 0), unit_id(3, 0)})
    assert [admission.group_id for admission in at.plan.admissions] == [2]
    assert at.order() == [1, 3]
    assert at.codes(1) == at.codes(3) == []
    assert [admission.group_id for admission in plan_cycle(at.world, after(0)).admissions] == [1, 2]


@pytest.mark.parametrize(
    ("taken", "group", "expected"),
    [
        (
            role(2, 1, memory_gib=60),
            gang(2, role(1, 1, memory_gib=50)),
            (
                "needs 50 GiB of memory on one node: 80 GiB of memory is free on the 2 nodes that it may use,"
                " but scattered"
            ),
        ),
        (
            role(2, 1, cpus=40),
            gang(2, role(1, 1, cpus=30)),
            "needs 30 CPUs on one node: 48 CPUs are free on the 2 nodes that it may use, but scattered",
        ),
        (
            role(2, 1, memory_gib=60),
            independent(2, role(3, 1, memory_gib=50)),
            (
                "needs 50 GiB of memory on one node: 80 GiB of memory is free on the 2 nodes that it may use,"
                " but scattered"
            ),
        ),
        (
            role(2, 0, memory_gib=60),
            gang(2, role(1, 0, memory_gib=50)),
            (
                "needs 50 GiB of memory on one node: 80 GiB of memory is free on the 2 nodes that it may use,"
                " but scattered"
            ),
        ),
        (
            role(2, 1, memory_gib=60),
            gang(2, role(1, 1, memory_gib=10), role(1, 0, name="ps", memory_gib=50)),
            (
                "the role ps needs 50 GiB of memory on one node: 80 GiB of memory is free on the 2 nodes that"
                " it may use, but scattered"
            ),
        ),
        (
            role(2, 1, memory_gib=60),
            gang(2, role(2, 1, memory_gib=25), required="rack"),
            "needs 50 GiB of memory within one rack, the best rack has 40 GiB of memory free",
        ),
        (
            role(2, 5),
            gang(2, role(2, 2, memory_gib=1), required="rack"),
            "needs 4 GPUs within one rack, the best rack has 3 GPUs free",
        ),
        (
            role(2, 5),
            gang(2, role(1, 4, memory_gib=1)),
            "needs 4 GPUs on one node: 6 GPUs are free on the 2 nodes that it may use, but scattered",
        ),
    ],
)
def test_the_scattered_resource_is_the_one_that_is_told(
    taken: RoleShape, group: Group, expected: str
) -> None:
    nodes = [node(number, 8, cpus=64, memory_gib=100, labels={"rack": f"r{number}"}) for number in (1, 2)]
    at = site(nodes, [queue()], gang(1, taken), group, levels=("rack", "host"))
    at.cycle()
    assert at.running().keys() == {1}
    assert _told(at, 2) == [expected]


def test_gpus_and_memory_that_are_free_on_different_nodes() -> None:
    """Each is there, node by node, and only together they are not: the second one is told."""
    nodes = [node(1, 8, cpus=64, memory_gib=100), node(2, 8, cpus=64, memory_gib=100)]
    busy = [gang(1, role(1, 1, memory_gib=80)), gang(2, role(1, 8, memory_gib=40))]
    at = site(nodes, [queue()], *busy, gang(3, role(1, 1, memory_gib=50), at=1))
    at.cycle()
    assert at.running().keys() == {1, 2}
    assert _told(at, 3) == [
        (
            "needs 50 GiB of memory on one node: 80 GiB of memory is free on the 2 nodes that it may use, but"
            " scattered"
        )
    ]


def test_the_scattered_resource_follows_what_is_taken() -> None:
    nodes = [node(number, 8, cpus=64, memory_gib=100) for number in (1, 2)]
    waiting = gang(9, role(1, 4, memory_gib=60), at=1)
    at = site(nodes, [queue()], gang(1, role(2, 1, memory_gib=60)), waiting)
    at.cycle()
    told = [at.blocker(9, Code.FRAGMENTED).scope["resource"]]
    at.submit(gang(2, role(2, 4, memory_gib=1)))
    for _ in range(2):
        at.cycle()
        told.append(at.blocker(9, Code.FRAGMENTED).scope["resource"])
    assert told == ["memory", "gpus", "gpus"]


def test_reasons_stay_true_though_more_fields_are_used_than_kept() -> None:
    """They are made anew in each cycle then, and nothing says how they differ from those before."""
    at = site([node(1, 8)], [queue()], gang(1, role(1, 5)), gang(2, role(1, 3)))
    at.cycle()
    rare = (gang(4 + each, role(1, 1, labels={"rare": str(each)})) for each in range(MAX_FIELDS))
    at.submit(gang(3, role(1, 8)), *rare)
    at.cycle()
    at.cycle()
    assert at.have(at.blocker(3, Code.INSUFFICIENT_GPUS)) == 0
    at.end(2)
    at.cycle()
    assert at.have(at.blocker(3, Code.INSUFFICIENT_GPUS)) == 3


def test_what_an_earlier_release_has_published_of_claims_is_told_as_it_was() -> None:
    until = after(600).isoformat(timespec="seconds")
    dated = Blocker(code=Code.HELD_FOR_CLAIM, scope={"until": until}, holders=("g1", "g2"))
    undated = Blocker(code=Code.HELD_FOR_CLAIM, holders=("g1", "g2"))
    told = [told_to(each, public_id="g2", ends_at=None) for each in (dated, undated)]
    assert [(each.holders, each.scope) for each in told if each is not None] == [
        (("g1",), {"until": until, "time_limit": "none"}),
        (("g1",), {"time_limit": "none"}),
    ]


def test_what_a_plan_sets_free_that_never_is_is_told_as_kept_by_the_next() -> None:
    at = site([node(1, 8)], [queue()], gang(1, role(2, 8)), gang(2, role(1, 1)))
    places = tuple(Place(member, 0, 1, (4 * member, 4 * member + 1)) for member in (0, 1))
    all_of_it = (*places, Place(2, 0, 1, (2, 3, 6, 7)))
    claim = Claim(
        unit_id=unit_id(1, 0), cause=ClaimCause.GUARD, made_at=after(0), due_at=None, places=all_of_it
    )
    held = replace(at.world.pending[unit_id(2, 0)], is_held=True)
    at.world.apply(Changes(pending={held.id: held}, claims={claim.unit_id: claim}))
    codes = []
    # It never fits, so its claim is over; or it is passed over, and all stays as it is.
    for without in ([], [claim.unit_id]):
        queue_now = plan_cycle(at.world, after(10), without=without).queues[1]
        told = next(each.verdict for each in queue_now.order if each.group_id == 2)
        codes.append([blocker.code for blocker in queue_now.verdicts[told]])
    assert codes == [[], [Code.HELD_FOR_CLAIM]]
