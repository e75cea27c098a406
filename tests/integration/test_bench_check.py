"""A gauge that got slower is found, one that did not is not, and what is above is measured again."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from bench.check.cycles import cycle_gauges
from bench.check.decisions import Sizes, decide
from bench.check.gauge import Gauge, measure, slowed
from bench.check.stored import read_ratios
from bench.check.verdict import judge
from bench.check.yardsticks import python_seconds

SIZES = Sizes(plans=3)
STORED = {"python": 1.0, "slowed": 1.0}


def planning(name: str, *, plans: int) -> Gauge:
    """Beside as much planning as SIZES says."""
    sizes = replace(SIZES, plans=plans)
    return Gauge(
        name=name,
        product=lambda: decide(sizes, sizes.small),
        yardstick=lambda: decide(SIZES, SIZES.small),
        rounds=7,
    )


def test_planning_that_takes_longer_is_told_from_as_much_planning() -> None:
    found = measure([planning("as much", plans=3), planning("more", plans=4)])
    assert found["more"] > 1.15 * found["as much"]


def test_a_planted_slowdown_of_30_percent_is_found() -> None:
    gauge = Gauge(name="python", product=python_seconds, yardstick=python_seconds, rounds=25)
    found = judge([gauge, slowed(replace(gauge, name="slowed"), percent=30)], STORED, say=print)
    assert [each.is_slower for each in found] == [False, True]


def test_what_is_above_is_measured_three_times_and_the_median_counts() -> None:
    disturbed = iter([1.0, 1.5, 1.0, 1.0, 1.0, 1.0])
    seen: list[str] = []
    gauge = Gauge(name="lucky", product=lambda: next(disturbed), yardstick=lambda: 1.0, rounds=1)
    verdict = judge([gauge], {"lucky": 1.0}, say=seen.append)[0]
    assert verdict.measured == [1.5, 1.0, 1.0]
    assert not verdict.is_slower
    assert seen == ["measured again: lucky"] * 2


def test_cycles_and_submits_are_gauged_on_real_stores(empty_database_url: str, redis_url: str) -> None:
    with ExitStack() as close:
        gauges = cycle_gauges(empty_database_url, redis_url, close, is_durable=False)
        for gauge in gauges:
            assert gauge.product() > 0
            assert gauge.yardstick() > 0


def test_every_gauge_has_a_stored_ratio() -> None:
    names = {"decision", "decision, 10 times as many waiting", "quiet cycle", "submit over HTTP, the API"}
    assert names < set(read_ratios().ratios)
