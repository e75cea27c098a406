"""For which shapes a cohort has anything left: a no is certain."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from service.admission.fit import Fitter
from service.admission.order.openings import Openings
from service.admission.quota.book import QuotaBook
from service.admission.resident import World
from service.admission.world import Changes, Configuration
from tests.builders import Group, cohort, gang, node, queue, role, site, submitted
from tests.unit.admission.strategies import configurations, waiting

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@given(
    config=configurations(),
    groups=waiting(),
    taken=st.lists(
        st.tuples(st.integers(1, 2), st.sampled_from(("ma", "mb", "cpus")), st.integers(1, 4)), max_size=6
    ),
)
def test_whoever_has_quota_is_never_passed_over(
    config: Configuration, groups: list[Group], taken: list[tuple[int, str, int]]
) -> None:
    world = World.empty()
    world.apply(Changes(configuration=config))
    world.apply(submitted(*groups))
    world.move_to(NOW)
    book = QuotaBook(world.quota)
    fitter = Fitter(world.capacity, world.shapes, book, own_use=world.own_use)
    openings = Openings(world, fitter)
    for step in range(len(taken) + 1):
        for queue_id, shape_ids in world.backlog.shapes_in.items():
            queries = [fitter.query(shape_id) for shape_id in shape_ids]
            has_quota = [not book.exceeded(queue_id, query) for query in queries]
            assert openings.has_quota(queue_id) >= any(has_quota)
            assert openings.has_room(queue_id) >= any(has_quota)
            for shape_id, has_own in zip(shape_ids, has_quota, strict=True):
                assert openings.fits(queue_id, shape_id) == has_own
        for queue_id, resource, amount in taken[step : step + 1]:
            book.charge(queue_id, {resource: amount})


def test_a_cohort_that_has_too_little_left_is_closed_for_those_who_need_more() -> None:
    queues = [queue(number, nominal={"mx": 4}, cohort=1) for number in (1, 2)]
    made = site([node(1, gpus=8)], queues, cohorts=[cohort(1)])
    made.submit(gang(1, role(gpus=3), queue_id=1), gang(2, role(gpus=6), queue_id=2))
    book = QuotaBook(made.world.quota)
    openings = Openings(
        made.world, Fitter(made.world.capacity, made.world.shapes, book, own_use=made.world.own_use)
    )
    assert (openings.has_quota(1), openings.has_quota(2)) == (True, True)
    book.charge(1, {"mx": 3})
    assert (openings.has_quota(1), openings.has_quota(2)) == (True, False)
    book.charge(2, {"mx": 2})
    assert (openings.has_quota(1), openings.has_quota(2)) == (True, False)
    book.charge(2, {"mx": 1})
    assert (openings.has_quota(1), openings.has_quota(2)) == (False, False)
