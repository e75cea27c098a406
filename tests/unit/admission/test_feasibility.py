"""What is refused at submit: a member that no registered node could hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.admission.nodes.feasibility import Shortfall, check_members
from service.admission.world import Node
from service.domain.shape import RoleShape, Terms
from tests.builders import configuration, gang, node, queue, role

_NODES = [
    node(1, 4, model="ma", gpu_memory_gib=40, cpus=64, memory_gib=64, labels={"zone": "z1"}),
    node(2, 8, model="mb", gpu_memory_gib=80, cpus=32, memory_gib=256, is_ready=False),
    node(3, 0, cpus=96, memory_gib=32, labels={"zone": "z3"}, is_cordoned=True),
]


@pytest.mark.parametrize(
    ("asked", "nodes", "expected"),
    [
        (role(100, 8), _NODES, []),
        (role(1, 9), _NODES, [("gpus", 9, 8)]),
        (role(1, 8, models=["ma"]), _NODES, [("gpus", 8, 4)]),
        (role(1, 1, models=["mc"]), _NODES, [("models", ("mc",), ("ma", "mb"))]),
        (role(1, 1, min_gpu_memory_gib=100), _NODES, [("min_memory_gib", 100, 80)]),
        (role(1, 1, models=["ma"], min_gpu_memory_gib=80), _NODES, [("min_memory_gib", 80, 40)]),
        (role(1, 0, cpus=97), _NODES, [("cpus", 97, 96)]),
        (role(1, 0, cpus=96.5, memory_gib=300), _NODES, [("cpus", 96.5, 96), ("memory_gib", 300, 256)]),
        (role(1, 1, cpus=80), _NODES, [("cpus", 80, 64)]),
        (role(1, 8, cpus=60), _NODES, [("cpus", 60, 32)]),
        (role(1, 0, cpus=90, memory_gib=64), _NODES, [("memory_gib", 64, 32)]),
        (role(1, 1, labels={"zone": "z2"}), _NODES, [("node_labels", ("zone=z2",), ("zone=z1", "zone=z3"))]),
        (role(1, 1, labels={"zone": "z3"}), _NODES, [("gpus", 1, 0)]),
        (role(1, 2, labels={"host": "n2"}), _NODES, []),
        (role(1, 16), [], []),
        (role(1, 3), [node(1, devices=[("ma", 80), ("ma", 80), ("mb", 80), ("mb", 80)])], [("gpus", 3, 2)]),
    ],
)
def test_members_that_exceed_every_node(
    asked: RoleShape, nodes: list[Node], expected: list[tuple[str, object, object]]
) -> None:
    found = check_members(gang(1, asked).shape, configuration(nodes, [queue()]))
    assert [(each.field, each.asked, each.largest) for each in found] == expected


def test_each_role_is_named() -> None:
    shape = gang(1, role(1, 1, name="head"), role(2, 9, name="worker")).shape
    found = check_members(shape, configuration(_NODES, [queue()]))
    assert found == (Shortfall(role="worker", field="gpus", asked=9, largest=8),)


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        (Terms(), []),
        (Terms(pools=("p1",)), []),
        (Terms(flavors=("mb",)), []),
        (Terms(flavors=("mc",)), [("models", ("mc",), ())]),
        (Terms(pools=("p3",)), [("pools", ("p3",), ("p1",))]),
        (Terms(pools=()), [("pools", (), ("p1",))]),
        (Terms(flavors=("ma",)), [("gpus", 8, 4)]),
    ],
)
def test_what_the_queue_does_not_allow_is_not_there(
    terms: Terms, expected: list[tuple[str, object, object]]
) -> None:
    shape = replace(gang(1, role(1, 8)).shape, terms=terms)
    found = check_members(shape, configuration(_NODES, [queue()]))
    assert [(each.field, each.asked, each.largest) for each in found] == expected
    assert check_members(shape, configuration([], [queue()])) == (), "the nodes are still to come"
