"""When a group is likely to start, and whose places a guard takes when nobody on them has a bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.admission.cycle import plan_cycle
from service.admission.forecast import InTheWay, Quantiles, forecast_end, forecast_wait
from service.admission.policy import Policy
from service.domain.unit import unit_id
from tests.builders import Group, after, gang, node, queue, role, site

TEN = tuple(float(100 * number) for number in range(1, 11))


def holder(*, since: float = 0, frees_at: float | None = None, runtimes: Sequence[float] = TEN) -> InTheWay:
    return InTheWay(
        since=after(since), frees_at=None if frees_at is None else after(frees_at), runtimes=runtimes
    )


@pytest.mark.parametrize(
    ("now", "p50", "p90"),
    [
        (0, 500, 900),  # the fifth and the ninth of ten
        (500, 800, 1000),  # of 600 to 1000 only: the third and the fifth of five
        (950, 1000, 1000),
    ],
)
def test_of_what_has_gone_on_for_a_while_only_those_count_that_went_on_for_longer(
    now: float, p50: float, p90: float
) -> None:
    for found in (
        forecast_end([holder()], after(now)),
        forecast_wait(TEN, since=after(0), now=after(now)),
    ):
        assert (found.p50_at, found.p90_at) == (after(p50), after(p90))


def test_it_ends_at_its_enforced_end_at_the_latest() -> None:
    found = forecast_end([holder(frees_at=600)], after(0))
    assert (found.p50_at, found.p90_at) == (after(500), after(600))


def test_who_outran_all_others_or_resembles_nobody_ends_at_its_enforced_end_or_nobody_knows_when() -> None:
    for each in (holder(since=-2000), holder(runtimes=TEN[:4])):
        found = forecast_end([each], after(0))
        assert (found.p50_at, found.p90_at) == (None, None)
        assert not each.is_known(after(0))
        bounded = forecast_end([replace(each, frees_at=after(50))], after(0))
        assert (bounded.p50_at, bounded.p90_at) == (after(50), after(50))
    overdue = forecast_end([holder(since=-2000, frees_at=-10)], after(0))
    assert overdue.p50_at == after(0)


def test_places_are_free_when_the_last_of_their_holders_is_gone() -> None:
    assert forecast_end([], after(7)).p90_at == after(7)
    both = forecast_end([holder(frees_at=100), holder()], after(0))
    assert (both.p50_at, both.p90_at) == (after(500), after(900))
    one_unknown = forecast_end([holder(), holder(runtimes=())], after(0))
    assert (one_unknown.p50_at, one_unknown.p90_at) == (None, None)


def test_a_plan_bounds_it_and_so_does_what_is_kept_for_others() -> None:
    found = Quantiles(p50_at=after(100), p90_at=after(200))
    assert found.not_after(after(150)) == Quantiles(p50_at=after(100), p90_at=after(150))
    assert found.not_after(None) == found
    assert found.not_before(after(150)) == Quantiles(p50_at=after(150), p90_at=after(200))
    nothing = Quantiles(p50_at=None, p90_at=None)
    assert nothing.not_after(after(1)) == Quantiles(p50_at=after(1), p90_at=after(1))
    assert nothing.not_before(after(1)) == nothing


def test_who_waits_for_longer_than_all_others_has_no_forecast() -> None:
    found = forecast_wait(TEN, since=after(-1000), now=after(0))
    assert (found.p50_at, found.p90_at) == (None, None)
    assert forecast_wait(TEN[:4], since=after(0), now=after(0)).p50_at is None


@given(
    st.lists(st.floats(0, 1e6), min_size=5, max_size=30).map(sorted),
    st.floats(0, 1e6),
    st.none() | st.floats(-100, 1e6),
)
def test_a_forecast_is_never_past_and_its_quantiles_are_in_order(
    runtimes: list[float], ran: float, frees_in: float | None
) -> None:
    found = forecast_end([holder(since=-ran, frees_at=frees_in, runtimes=runtimes)], after(0))
    assert (found.p50_at is None) == (found.p90_at is None)
    if found.p50_at is not None and found.p90_at is not None:
        assert after(0) <= found.p50_at <= found.p90_at
        assert frees_in is None or found.p90_at <= max(after(0), after(frees_in))


def _endless(group_id: int, host: int, expected: int | None) -> Group:
    made = gang(group_id, role(gpus=4, labels={"host": f"n{host}"}))
    return Group(replace(made.row, expected_seconds=expected), made.shape)


@pytest.mark.parametrize(
    ("expected", "hosts"),
    [((None, 900, 20), {2, 3}), ((900, None, 20), {1, 3}), ((None, None, None), {1, 2})],
)
def test_a_guard_without_a_date_is_kept_places_whose_holders_are_likely_to_end_first(
    expected: tuple[int | None, ...], hosts: set[int]
) -> None:
    made = site([node(number, gpus=4) for number in (1, 2, 3)], [queue(1)])
    made.submit(*(_endless(host, host, seconds) for host, seconds in enumerate(expected, start=1)))
    policy = Policy(guard_seconds=100)
    made.world.admit(plan_cycle(made.world, after(0), policy=policy).admissions, after(0))
    assert made.world.running[unit_id(2, 0)].expected_seconds == expected[1]
    made.submit(gang(9, role(2, gpus=4), at=1))
    assert not plan_cycle(made.world, after(50), policy=policy).claims_made
    (claim,) = plan_cycle(made.world, after(200), policy=policy).claims_made
    assert (claim.due_at, {place.node_id for place in claim.places}) == (None, hosts)
