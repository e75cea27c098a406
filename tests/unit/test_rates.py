"""Buckets: what they let through and when there is more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.api.rates import Buckets


def test_a_burst_goes_through_and_then_one_each() -> None:
    buckets = Buckets(per_second=10, burst=5)
    assert [buckets.take("a", 1, 100.0) for _ in range(5)] == [0.0] * 5
    assert buckets.take("a", 1, 100.0) == pytest.approx(0.1)
    assert buckets.take("b", 1, 100.0) == 0.0
    assert buckets.take("a", 1, 100.1) == 0.0
    assert buckets.take("a", 1, 100.1) == pytest.approx(0.1)


def test_what_is_refused_takes_nothing() -> None:
    buckets = Buckets(per_second=1, burst=1)
    assert buckets.take("a", 1, 0.0) == 0.0
    for _ in range(1000):
        assert buckets.take("a", 1, 0.5) == pytest.approx(0.5)
    assert buckets.take("a", 1, 1.0) == 0.0


def test_what_is_larger_than_the_bucket_takes_all_of_it() -> None:
    buckets = Buckets(per_second=1, burst=10)
    assert buckets.take("a", 500, 0.0) == 0.0
    assert buckets.take("a", 1, 0.0) == pytest.approx(1.0)
    assert buckets.take("a", 500, 9.0) == pytest.approx(1.0)


def test_no_rate_is_no_limit() -> None:
    buckets = Buckets(per_second=0, burst=1)
    assert {buckets.take("a", 10**6, 0.0) for _ in range(1000)} == {0.0}


def test_many_callers_cost_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.api.rates._MOST_CALLERS", 100)
    buckets = Buckets(per_second=1, burst=1)
    for caller in range(10_000):
        buckets.take(caller, 1, 0.0)
        assert len(buckets._full_at) <= 100
    assert buckets.take("new", 1, 0.0) == 0.0
    assert buckets.take("new", 1, 0.0) > 0.0


@given(
    st.lists(st.tuples(st.floats(0, 0.5), st.integers(1, 4)), min_size=1, max_size=200),
    st.integers(1, 20),
    st.integers(1, 20),
)
def test_never_more_than_the_burst_and_what_has_come_since(
    asked: list[tuple[float, int]], per_second: int, burst: int
) -> None:
    buckets = Buckets(per_second=per_second, burst=burst)
    now, taken = 0.0, 0
    for pause, requests in asked:
        now += pause
        if buckets.take("a", requests, now) == 0.0:
            taken += min(requests, burst)
        assert taken <= burst + now * per_second + 1e-6
