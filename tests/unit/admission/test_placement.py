"""Where groups go: best fit, whole gangs, models in order of preference, domains, avoided nodes."""

from __future__ import annotations

import pytest

from service.admission.world import Node
from service.domain.reasons import Code
from tests.builders import Group, gang, independent, node, queue, role, site


def _racks(*racks: str, gpus: int = 4) -> list[Node]:
    return [node(number, gpus, labels={"rack": rack}) for number, rack in enumerate(racks, start=1)]


_BUSY = {"models": ["mx"]}


@pytest.mark.parametrize(
    ("why", "nodes", "first", "then", "expected"),
    [
        (
            "one GPU goes to the node that is partly used",
            [node(1), node(2)],
            gang(1, role(1, 5, labels={"host": "n2"})),
            gang(2, role(1, 1)),
            {"n2": 1},
        ),
        (
            "a whole node is left for who needs one",
            [node(1, 8), node(2, 4)],
            None,
            gang(2, role(2, 2)),
            {"n2": 4},
        ),
        (
            "a gang takes as few nodes as possible",
            [node(1, 2), node(2, 4), node(3, 6), node(4, 2)],
            None,
            gang(2, role(6, 1)),
            {"n3": 6},
        ),
        (
            "the rest of a gang goes where it leaves least",
            [node(1, 8), node(2, 8), node(3, 2)],
            None,
            gang(2, role(10, 1)),
            {"n1": 8, "n3": 2},
        ),
        (
            "members without GPUs go to nodes without GPUs",
            [node(1, 8), node(2, 0, cpus=4, memory_gib=4)],
            None,
            gang(2, role(3, 0)),
            {"n2": 0},
        ),
        (
            "if there is none, they go where the GPUs are taken",
            [node(1, 8), node(2, 8)],
            gang(1, role(1, 8, labels={"host": "n2"})),
            gang(2, role(3, 0)),
            {"n2": 0},
        ),
        (
            "independent members fill what is partly used first",
            [node(1, 8), node(2, 2), node(3, 4)],
            None,
            independent(2, role(6, 1)),
            {"n2": 2, "n3": 4},
        ),
        (
            "equal nodes beside each other",
            _racks("r1", "r2", "r1", "r2"),
            None,
            gang(2, role(2, 4)),
            {"n1": 4, "n3": 4},
        ),
        (
            "the tightest domain that holds it",
            _racks("r1", "r1", "r1", "r2", "r2"),
            None,
            gang(2, role(2, 4), required="rack"),
            {"n4": 4, "n5": 4},
        ),
        (
            "the tightest domain of the preferred level",
            _racks("r1", "r1", "r1", "r2", "r2"),
            None,
            gang(2, role(2, 4), preferred="rack"),
            {"n4": 4, "n5": 4},
        ),
        (
            "one host is better than one rack",
            _racks("r1", "r1", "r2", "r2", gpus=8),
            gang(1, role(1, 2, labels={"host": "n4"}), role(1, 4, name="other", labels={"host": "n3"})),
            gang(2, role(2, 3), preferred="host"),
            {"n4": 6},
        ),
        (
            "no host holds it, so one rack, the next wider level",
            _racks("r1", "r2", "r2", "r3"),
            None,
            gang(2, role(2, 4), preferred="host"),
            {"n2": 4, "n3": 4},
        ),
        (
            "no domain of any level holds it, so anywhere",
            _racks("r1", "r2", "r3"),
            None,
            gang(2, role(3, 4), preferred="host"),
            {"n1": 4, "n2": 4, "n3": 4},
        ),
        (
            "a preferred host within the required rack",
            _racks("r1", "r1", "r2", "r2", "r2"),
            gang(1, role(3, 1, labels={"host": "n1"}), role(2, 1, name="other", labels={"host": "n2"})),
            gang(2, role(3, 1), required="rack", preferred="host"),
            {"n3": 3},
        ),
        (
            "several roles in one preferred rack",
            _racks("r1", "r2", "r2", "r1", "r1"),
            gang(1, role(1, 2, labels={"host": "n1"})),
            gang(2, role(1, 4), role(2, 2, name="other"), preferred="rack"),
            {"n2": 4, "n3": 4},
        ),
        (
            "a node without a label of the level is in none of its domains",
            [node(1, 4), node(2, 4), node(3, 4, labels={"rack": "r1"}), node(4, 4, labels={"rack": "r1"})],
            None,
            gang(2, role(2, 4), preferred="rack"),
            {"n3": 4, "n4": 4},
        ),
        (
            "a node that failed it is avoided, though its rack would hold it",
            _racks("r1", "r1", "r2", "r3"),
            None,
            gang(2, role(2, 4), preferred="rack", avoided=[1]),
            {"n2": 4, "n3": 4},
        ),
        (
            "each slice in one rack, though racks hold no whole number of nodes",
            _racks("r1", "r1", "r1", "r2", "r2", "r2"),
            None,
            gang(2, role(4, 4, slices=("rack", 2))),
            {"n1": 4, "n2": 4, "n4": 4, "n5": 4},
        ),
        (
            "the tightest domain for the last slices",
            _racks("r1", "r1", "r2", "r3", "r3", "r3", "r3"),
            None,
            gang(2, role(2, 4, slices=("rack", 2))),
            {"n1": 4, "n2": 4},
        ),
        (
            "a slice spans nodes of its rack, other roles go anywhere",
            _racks("r1", "r2", "r1", gpus=2),
            None,
            gang(2, role(4, 1, slices=("rack", 4)), role(2, 1, name="other")),
            {"n1": 2, "n2": 2, "n3": 2},
        ),
        (
            "slices within the preferred rack",
            _racks("r1", "r2", "r2", "r1", "r1"),
            gang(1, role(1, 1, labels={"host": "n1"})),
            gang(2, role(4, 2, slices=("host", 2)), preferred="rack"),
            {"n2": 4, "n3": 4},
        ),
        (
            "the tightest pool that holds it",
            [node(1, 8, pool=1), node(2, 8, pool=1), node(3, 8, pool=2)],
            None,
            gang(2, role(2, 4)),
            {"n3": 8},
        ),
        (
            "one host for all members",
            [node(1, 3), node(2, 3), node(3, 5)],
            None,
            gang(2, role(4, 1), required="host"),
            {"n3": 4},
        ),
        (
            "a node that failed it is avoided",
            [node(1, 4), node(2, 8)],
            None,
            gang(2, role(1, 4), avoided=[1]),
            {"n2": 4},
        ),
        (
            "unless there is no other place",
            [node(1, 4), node(2, 4)],
            None,
            gang(2, role(2, 4), avoided=[1]),
            {"n1": 4, "n2": 4},
        ),
        (
            "the same for members of a range",
            [node(1, 2), node(2, 4)],
            None,
            independent(2, role(5, 1), avoided=[1]),
            {"n1": 1, "n2": 4},
        ),
        (
            "the preferred model first",
            [node(1, 4, model="ma"), node(2, 8, model="mb")],
            None,
            gang(2, role(2, 2, models=["mb", "ma"])),
            {"n2": 4},
        ),
        (
            "the next one if that is full",
            [node(1, 4, model="ma"), node(2, 2, model="mb")],
            None,
            gang(2, role(2, 2, models=["mb", "ma"])),
            {"n1": 4},
        ),
        (
            "models are mixed only if neither holds the role",
            [node(1, 2, model="ma"), node(2, 2, model="mb")],
            None,
            gang(2, role(2, 2, models=["mb", "ma"])),
            {"n1": 2, "n2": 2},
        ),
        (
            "any model: large memory stays for who asks for it",
            [node(1, 4, model="ma", gpu_memory_gib=192), node(2, 4, model="mb", gpu_memory_gib=40)],
            None,
            gang(2, role(1, 4)),
            {"n2": 4},
        ),
        (
            "GPU memory",
            [node(1, 4, gpu_memory_gib=40), node(2, 4, gpu_memory_gib=80)],
            None,
            gang(2, role(1, 1, min_gpu_memory_gib=80)),
            {"n2": 1},
        ),
        (
            "unhealthy and lost devices are not used",
            [node(1, 4, unhealthy=[0], lost=[3]), node(2, 8)],
            None,
            gang(2, role(1, 3)),
            {"n2": 3},
        ),
        (
            "roles that stand in each other's way",
            # The large CPU role fits on n1 alone, which the packing of workers fills first.
            [node(1, 4, cpus=12, memory_gib=64), node(2, 2, cpus=8, memory_gib=64)],
            None,
            gang(2, role(2, 1, cpus=4, name="worker"), role(1, 0, cpus=12, name="data")),
            {"n1": 0, "n2": 2},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_places(
    why: str, nodes: list[Node], first: Group | None, then: Group, expected: dict[str, int]
) -> None:
    at = site(nodes, [queue()], levels=("rack", "host"))
    if first is not None:
        at.submit(first)
        at.cycle()
    at.submit(then)
    at.cycle()
    assert at.running()[2] == expected, why


def test_the_devices_of_a_member_are_free_ones_with_the_smallest_memory() -> None:
    mixed = [node(1, devices=[("mx", 80), ("mx", 40), ("mx", 40)])]
    at = site(mixed, [queue()], gang(1, role(1, 1)), gang(2, role(1, 1, min_gpu_memory_gib=80), at=1))
    first, second = at.cycle().admissions
    assert first.places[0].devices == (1,)
    assert second.places[0].devices == (0,)


def test_neighbours_in_rank_sit_on_one_node() -> None:
    at = site([node(1, 4), node(2, 4)], [queue()], gang(1, role(8, 1)))
    (admission,) = at.cycle().admissions
    assert [place.node_id for place in admission.places] == [1] * 4 + [2] * 4
    assert [place.devices for place in admission.places] == [(0,), (1,), (2,), (3,)] * 2
    assert admission.usage == {"mx": 8, "cpus": 8000, "memory": 8192}
    assert admission.cpus_milli_by_node == {1: 4000, 2: 4000}


def test_a_slice_that_no_domain_holds_keeps_the_gang_out() -> None:
    at = site(_racks("r1", "r2"), [queue()], gang(1, role(2, 4, slices=("rack", 2))), levels=("rack", "host"))
    at.cycle()
    assert at.running() == {}
    assert at.codes(1) == [Code.NEVER_FITS]


def test_neighbours_in_rank_lie_in_one_rack_and_slices_are_whole() -> None:
    at = site(
        _racks("r1", "r2", "r1", "r2"),
        [queue()],
        gang(1, role(8, 2, slices=("rack", 4))),
        levels=("rack", "host"),
    )
    (admission,) = at.cycle().admissions
    assert [place.node_id for place in admission.places] == [1, 1, 3, 3, 2, 2, 4, 4]


@pytest.mark.parametrize("queues", [[queue(nominal={"ma": 0, "mb": 4})], [queue(limit={"ma": 3})]])
def test_the_quota_takes_part_in_the_choice_of_the_model(queues: list[object]) -> None:
    nodes = [node(1, 4, model="ma"), node(2, 4, model="mb")]
    at = site(nodes, queues, gang(1, role(1, 4, models=["ma", "mb"])))  # type: ignore[arg-type]
    at.cycle()
    assert at.running() == {1: {"n2": 4}}


def test_a_gang_lies_within_one_pool() -> None:
    at = site([node(1, 4, pool=1), node(2, 4, pool=2)], [queue()], gang(1, role(2, 4)))
    at.cycle()
    assert at.running() == {}
    assert at.codes(1) == [Code.NEVER_FITS]


def test_a_thousand_nodes_and_a_gang_of_thousands() -> None:
    nodes = [node(number, 8) for number in range(1, 1001)]
    at = site(nodes, [queue()], gang(1, role(7993, 1), role(1, 8, name="head")))
    at.cycle()
    assert at.running() == {}
    at.submit(gang(2, role(7992, 1), role(1, 8, name="head")))
    at.cycle()
    assert sum(at.running()[2].values()) == 8000
