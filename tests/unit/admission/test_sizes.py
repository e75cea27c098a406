"""Which size an elastic gang is admitted with, and in which order sizes follow each other."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from service.admission.elastic.sizes import Counts, counts_of, largest, last_role, next_role
from service.domain.reasons import Code
from service.domain.resources import CPUS, MEMORY
from service.domain.shape import RoleShape, Scheduling, Shape, Sizing
from service.store.shapes import shape_digest
from tests.builders import Group, Site, gang, node, queue, role, site

AT_START, WHILE_RUNNING = Sizing.AT_START, Sizing.WHILE_RUNNING


def elastic(group_id: int, *roles: RoleShape, required: str | None = None, queue_id: int = 1) -> Group:
    return gang(group_id, *roles, sizing=AT_START, required=required, queue_id=queue_id)


def sizes(made: Site, group_id: int) -> Counts | None:
    """Members of each role that the group was admitted with."""
    (unit,) = [one for one in made.world.running.values() if one.group_id == group_id] or (None,)
    return None if unit is None else counts_of(made.world.shapes[unit.shape_id], unit.places)


TWO_ROLES = (role(6, least=2), role(3, least=1, name="loader", gpus=0, cpus=1))


@pytest.mark.parametrize(
    ("roles", "gpus", "size"),
    [
        pytest.param([role(6, least=2)], 8, (6,), id="all of them where they fit"),
        pytest.param([role(6, least=2)], 4, (4,), id="as many as fit"),
        pytest.param([role(6, least=2)], 2, (2,), id="no more than its minimum"),
        pytest.param([role(6, least=2)], 1, None, id="less than its minimum is nothing"),
        pytest.param([role(6, 2, least=1)], 7, (3,), id="whole members"),
        pytest.param([role(3), role(6, least=1, name="b")], 7, (3, 4), id="a rigid role keeps its count"),
        pytest.param([role(4, least=1), role(4, least=1, name="b")], 5, (3, 2), id="roles grow evenly"),
        pytest.param([role(8, least=1), role(4, least=1, name="b")], 6, (4, 2), id="evenly by their counts"),
        pytest.param(
            [role(4, least=1), role(4, least=1, name="b", cpus=30, gpus=0)], 3, (3, 1),
            id="a role without room does not stop the other",
        ),
    ],
)  # fmt: skip
def test_the_largest_size_that_fits_is_taken(roles: Sequence[RoleShape], gpus: int, size: Counts) -> None:
    made = site([node(1, gpus, cpus=35)], [], elastic(1, *roles))
    made.cycle()
    assert sizes(made, 1) == size


def test_quota_bounds_the_size_and_is_charged_for_what_it_got() -> None:
    made = site([node(1)], [queue(1, nominal={"mx": 4})], elastic(1, role(6, least=2)))
    plan = made.cycle()
    assert sizes(made, 1) == (4,)
    assert plan.admissions[0].usage == {"mx": 4, CPUS: 4000, MEMORY: 4096}
    assert made.world.used[1]["mx"] == 4


def test_cpu_quota_bounds_the_size_too() -> None:
    made = site(
        [node(1)], [queue(1, nominal={"mx": 8, CPUS: 3000, MEMORY: 99_999})], elastic(1, role(6, least=2))
    )
    made.cycle()
    assert sizes(made, 1) == (3,)


def test_members_keep_their_numbers_in_a_smaller_size() -> None:
    made = site([node(1, 4)], [], elastic(1, role(4, least=1), role(4, least=1, name="b")))
    made.cycle()
    (unit,) = made.world.running.values()
    assert [(place.member, place.role) for place in unit.places] == [(0, 0), (1, 0), (4, 1), (5, 1)]


def test_a_required_domain_is_kept_and_the_roomiest_one_gives_the_size() -> None:
    racks = [
        node(1, 2, labels={"rack": "a"}),
        node(2, 3, labels={"rack": "b"}),
        node(3, 2, labels={"rack": "c"}),
    ]
    made = site(racks, [], elastic(1, role(6, least=1), required="rack"), levels=("rack", "host"))
    made.cycle()
    assert made.running() == {1: {"n2": 3}}


def test_what_waits_is_told_what_its_minimum_lacks() -> None:
    made = site([node(1, 4)], [queue(1, nominal={"mx": 4})], gang(1, role(3)), elastic(2, role(6, least=2)))
    made.cycle()
    assert made.codes(2) == [Code.QUOTA_EXCEEDED, Code.INSUFFICIENT_GPUS]
    assert {blocker.need for blocker in made.blockers(2)} == {2}


def test_a_group_whose_minimum_fits_is_feasible() -> None:
    made = site(
        [node(1, 4)], [], elastic(1, role(6, least=5)), elastic(2, role(6, least=4)), gang(3, role(1))
    )
    made.cycle()
    assert made.codes(1) == [Code.NEVER_FITS]
    assert sizes(made, 2) == (4,)


def test_a_gang_gives_up_members_in_the_order_in_which_it_would_get_them_back() -> None:
    shape = gang(1, role(7, least=2), role(3, least=1, name="b"), role(2, name="c"), sizing=AT_START).shape
    counts, grown = tuple(one.min_count for one in shape.roles), []
    while (position := next_role(shape, counts)) is not None:
        counts = (*counts[:position], counts[position] + 1, *counts[position + 1 :])
        grown.append(position)
    given_up = []
    while (position := last_role(shape, counts)) is not None:
        counts = (*counts[:position], counts[position] - 1, *counts[position + 1 :])
        given_up.append(position)
    assert given_up == grown[::-1]
    assert counts == (2, 1, 2)


def test_few_sizes_are_tried() -> None:
    shape = gang(1, role(16_000, least=1), sizing=AT_START).shape
    tried: list[Counts] = []

    def place(counts: Counts) -> Counts | None:
        tried.append(counts)
        return counts if counts <= (9_999,) else None

    assert largest(shape, place) == (9_999,)
    assert len(tried) < 20


def test_the_digest_of_a_rigid_shape_is_what_it_was_before_there_were_others() -> None:
    shape = Shape(scheduling=Scheduling.GANG, roles=(role(2, labels={"zone": "a"}),), required="rack")
    before = "392354fd74cb74dbbb189d75f831ac203602c5f342e6f55c0644e03213f7a3bc"
    assert shape_digest(shape).hex() == before
    digests = {
        shape_digest(Shape(scheduling=shape.scheduling, roles=shape.roles, sizing=each)) for each in Sizing
    }
    assert len(digests | {shape_digest(shape)}) == 3
