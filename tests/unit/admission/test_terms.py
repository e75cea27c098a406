"""What a queue allows: flavors, pools, and how its groups fill the nodes."""

from __future__ import annotations

from typing import Any

import pytest

from service.admission.waiting.terms import stored_shape_id
from service.admission.world import Changes
from service.domain.queue import Filling
from service.domain.reasons import Code
from service.domain.wording import message
from tests.builders import Group, configuration, gang, independent, node, queue, role, shape_id, site

_NODES = [
    node(1, 4, model="ma", pool=1),
    node(2, 4, model="mb", pool=1),
    node(3, 4, model="ma", pool=2),
    node(4, 4, model="mb", pool=2),
]


@pytest.mark.parametrize(
    ("why", "policy", "group", "expected"),
    [
        ("any flavor of those allowed", {"flavors": ("mb",)}, gang(1, role(1, 4)), {"n2": 4}),
        (
            "the order of the owner among those allowed",
            {"flavors": ("ma", "mb")},
            gang(1, role(1, 4, models=["mb", "mc", "ma"])),
            {"n2": 4},
        ),
        ("one pool", {"pools": ("p2",)}, gang(1, role(1, 4)), {"n3": 4}),
        ("one flavor in one pool", {"pools": ("p2",), "flavors": ("mb",)}, gang(1, role(1, 4)), {"n4": 4}),
        ("members without GPUs keep to the pools", {"pools": ("p2",)}, gang(1, role(1, 0)), {"n3": 0}),
        ("independent members too", {"flavors": ("mb",)}, independent(1, role(9, 1)), {"n2": 4, "n4": 4}),
    ],
)
def test_groups_keep_to_what_their_queue_allows(
    why: str, policy: dict[str, Any], group: Group, expected: dict[str, int]
) -> None:
    at = site(_NODES, [queue(**policy)], group)
    at.cycle()
    assert at.running() == {1: expected}, why


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ({"flavors": ("ma",)}, "queue q1 may use only GPUs of ma, and no such node has GPUs of mb"),
        ({"pools": ("p3",)}, "queue q1 may use only pools p3, and no such node has GPUs of mb"),
    ],
)
def test_what_the_queue_forbids_is_said_in_its_name(policy: dict[str, Any], text: str) -> None:
    at = site(_NODES, [queue(**policy)], gang(1, role(1, 4, models=["mb"])))
    at.cycle()
    blocker = at.blocker(1, Code.NO_MATCHING_FLAVOR)
    assert at.codes(1)[0] is Code.NEVER_FITS
    assert message(blocker.code, scope=blocker.scope) == text


def test_a_full_flavor_of_one_queue_says_nothing_about_another() -> None:
    queues = [queue(1, flavors=("ma",)), queue(2), queue(3, flavors=("ma",))]
    at = site(_NODES, queues, *(gang(number, role(1, 4), queue_id=1) for number in (1, 2, 3)))
    at.submit(gang(4, role(1, 4), queue_id=3, at=1), gang(5, role(1, 4), queue_id=2, at=2))
    at.cycle()
    assert at.running() == {1: {"n1": 4}, 4: {"n3": 4}, 5: {"n2": 4}}
    assert at.codes(2) == at.codes(3) == [Code.INSUFFICIENT_GPUS]


def test_queues_with_equal_terms_share_what_is_found() -> None:
    queues = [queue(1, flavors=("ma",)), queue(2), queue(3, flavors=("ma",))]
    shape = gang(1, role(1, 4)).shape
    at = site(_NODES, queues, *(gang(number, role(1, 4), queue_id=number) for number in (1, 2, 3)))
    shapes = {row.queue_id: row.shape_id for row in at.world.pending.values()}
    assert shapes[1] == shapes[3] != shapes[2] == shape_id(shape)
    assert {stored_shape_id(each) for each in shapes.values()} == {shape_id(shape)}


_RACKS = [node(number, 4, labels={"rack": f"r{(number + 1) // 2}"}) for number in range(1, 7)]


@pytest.mark.parametrize(
    ("why", "group", "expected"),
    [
        ("one node of each rack", gang(1, role(3, 1)), {"n2": 1, "n4": 1, "n6": 1}),
        ("then the others", gang(1, role(6, 1)), {f"n{number}": 1 for number in range(1, 7)}),
        ("evenly", gang(1, role(8, 1)), {"n1": 1, "n2": 1, "n3": 1, "n4": 2, "n5": 1, "n6": 2}),
        ("within what it requires", gang(1, role(4, 1), required="rack"), {"n1": 2, "n2": 2}),
        ("packed where it has to be", gang(1, role(6, 4)), {f"n{number}": 4 for number in range(1, 7)}),
        ("members that are independent", independent(1, role(3, 1)), {"n2": 1, "n4": 1, "n6": 1}),
    ],
)
def test_a_queue_may_spread_its_groups(why: str, group: Group, expected: dict[str, int]) -> None:
    at = site(_RACKS, [queue(filling=Filling.SPREAD)], group, levels=("rack", "host"))
    at.cycle()
    assert at.running() == {1: expected}, why


def test_new_terms_hold_for_what_waits_already_and_move_nobody() -> None:
    at = site(_NODES, [queue()], *(gang(number, role(1, 4)) for number in (1, 2)))
    at.cycle()
    before = at.running()
    at.submit(gang(3, role(1, 4), at=1))
    later = configuration(_NODES, [queue(flavors=("ma",), pools=("p1",))], version=2)
    at.world.apply(Changes(configuration=later))
    at.cycle()
    assert at.running() == before
    assert Code.INSUFFICIENT_GPUS in at.codes(3) or Code.NEVER_FITS in at.codes(3)
    at.world.apply(Changes(configuration=configuration(_NODES, [queue()], version=3)))
    at.cycle()
    assert 3 in at.running()
