"""What is told where slices keep a group out that would have its places without them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from service.admission.world import Node
from service.domain.reasons import Code
from service.domain.wording import message
from tests.builders import Group, Site, gang, node, queue, role, site

_LEVELS = ("rack", "island", "host")


def _islands(*sizes: Sequence[int], **fields: float) -> list[Node]:
    """Each island with nodes of so many GPUs; two islands make a rack."""
    places = [(island, gpus) for island, nodes in enumerate(sizes) for gpus in nodes]
    return [
        node(number, gpus, labels={"rack": f"r{island // 2}", "island": f"i{island}"}, **fields)  # type: ignore[arg-type]
        for number, (island, gpus) in enumerate(places, start=1)
    ]


def _told(at: Site, group_id: int) -> list[tuple[Code, str]]:
    return [
        (each.code, message(each.code, need=each.need, have=at.have(each), scope=each.scope))
        for each in at.blockers(group_id)
    ]


def _waiting(nodes: list[Node], busy: list[int], group: Group) -> list[tuple[Code, str]]:
    """What is told to the group while one GPU of each of these nodes is taken."""
    runs = [gang(100 + number, role(1, 1, labels={"host": f"n{number}"})) for number in busy]
    at = site(nodes, [queue()], *runs, levels=_LEVELS)
    assert len(at.cycle().admissions) == len(runs)
    at.submit(group)
    assert not at.cycle().admissions
    return _told(at, group.row.group_id)


@pytest.mark.parametrize(
    ("nodes", "busy", "group", "told"),
    [
        pytest.param(
            _islands([4], [4], [4]),
            [1, 2],
            gang(1, role(8, 1, slices=("island", 4))),
            "needs 2 slices of 4 members, each within one island: 1 has room",
            id="ten GPUs are free, and one island is whole",
        ),
        pytest.param(
            _islands([6], [5], [5]),
            [1],
            gang(1, role(9, 1, slices=("island", 3)), required="rack"),
            "needs 3 slices of 3 members, each within one island: 2 have room in one rack",
            id="the rack that has most",
        ),
        pytest.param(
            _islands([2, 2], [2, 2]),
            [1, 3],
            gang(1, role(2, 1, name="head"), role(4, 1, slices=("island", 4))),
            "the role worker needs 1 slice of 4 members, each within one island: 0 have room",
            id="one of two roles",
        ),
        pytest.param(
            _islands([5], [5], cpus=6),
            [1, 2],
            gang(1, role(4, 1, slices=("island", 4), cpus=1.5)),
            "needs 1 slice of 4 members, each within one island: 0 have room",
            id="six members have GPUs and CPUs, three in each island",
        ),
    ],
)
def test_what_waits_for_slices_is_told_how_many_have_room(
    nodes: list[Node], busy: list[int], group: Group, told: str
) -> None:
    assert _waiting(nodes, busy, group) == [(Code.TOPOLOGY_UNSATISFIED, told)]


def test_what_could_never_have_its_slices_is_told_so() -> None:
    at = site(_islands([5], [5]), [queue()], gang(1, role(9, 1, slices=("island", 3))), levels=_LEVELS)
    at.cycle()
    told = "needs 3 slices of 3 members, each within one island: 2 have room, even when all nodes are idle"
    assert _told(at, 1) == [(Code.NEVER_FITS, told)]


def test_other_bounds_are_told_as_without_slices() -> None:
    nodes = _islands([4], [4])
    (told,) = _waiting(nodes, [1], gang(1, role(8, 1, slices=("island", 4))))
    assert told == (Code.INSUFFICIENT_GPUS, "needs 8 GPUs, 7 GPUs are free on the 2 nodes that it may use")
