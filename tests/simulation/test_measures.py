"""Figures against small cases worked out by hand, and against recounts that step through time."""

from __future__ import annotations

import random
import statistics
from math import nan

import numpy as np
import pytest

from simulation.measures.finish_time import private_completions
from simulation.measures.intervals import area_until, is_covered
from simulation.measures.measures import Measures, measure
from simulation.measures.quantiles import quantiles_of
from simulation.measures.shares import jain_by_hour, parts_by_hour
from simulation.measures.spread import spread_of
from simulation.measures.table import table_of
from simulation.measures.waits import pending_intervals
from simulation.outcome.group import Fate
from simulation.outcome.outcome import History
from tests.simulation.outcomes import Run, outcome

HOUR = 3600.0


def measured(*runs: Run, up: int = 8, shares: dict[str, float] | None = None) -> Measures:
    return measure(outcome(runs, up=up), shares or {})


def test_wait_completion_time_and_slowdown() -> None:
    found = measured(
        Run(at=0, held=[(0, 100)]),
        Run(at=10, held=[(30, 35)]),
        Run(at=20, held=[(100, 300)]),
    ).all
    assert found.wait.mean == pytest.approx((0 + 20 + 80) / 3)
    assert found.jct.mean == pytest.approx((100 + 25 + 280) / 3)
    # What ran for 5 s counts as having run for 10.
    assert found.slowdown.mean == pytest.approx((1 + 25 / 10 + 280 / 200) / 3)
    assert (found.wait.p50, found.wait.most, found.groups, found.never_started) == (20, 80, 3, 0)


def test_who_never_started_is_counted_and_has_no_wait() -> None:
    found = measured(Run(at=0, held=[(5, 10)]), Run(at=1), Run(at=2, fate=Fate.CANCELLED, left=50))
    assert (found.all.groups, found.all.never_started, found.all.wait.count) == (3, 2, 1)
    assert found.fates == {"succeeded": 1, "cancelled": 1, "waiting": 1}
    assert found.wait_quantiles[0] == 5
    assert found.wait_quantiles[-1] is None


def test_sizes_are_told_apart() -> None:
    sizes = (1, 2, 4, 5, 8, 9, 16, 17, 32, 33, 128)
    found = measured(*(Run(at=0, gpus=size, held=[(size, 500)]) for size in sizes), up=256)
    told = {each.name: (each.groups, each.wait.mean) for each in found.by_size}
    assert told == {
        "1": (1, 1),
        "2-4": (2, 3),
        "5-8": (2, 6.5),
        "9-16": (2, 12.5),
        "17-32": (2, 24.5),
        ">32": (2, 80.5),
    }
    assert found.big.groups == 6


def test_tenants_come_by_gpu_time() -> None:
    found = measured(
        Run(at=0, tenant="small", held=[(1, 2)]),
        Run(at=0, tenant="large", gpus=4, held=[(3, 100)]),
    )
    assert [(each.name, each.wait.mean, each.gpu_seconds) for each in found.by_tenant] == [
        ("large", 3, 4 * 97),
        ("small", 1, 1),
    ]


def test_preemptions_cost_what_was_held_in_vain() -> None:
    found = measured(Run(at=0, gpus=2, held=[(0, 50), (60, 70), (80, 180)]), Run(at=0, held=[(0, 20)]))
    assert (found.giving_way.evictions, found.giving_way.groups, found.giving_way.most_of_one) == (2, 1, 2)
    assert found.giving_way.lost_gpu_seconds == 2 * 60
    assert found.giving_way.lost_part == pytest.approx(120 / (2 * 160 + 20))
    assert found.usage.useful == pytest.approx(1 - 120 / 340)
    # From the submission to the last end.
    assert found.all.jct.most == 180


def test_utilisation_is_of_the_arrival_window() -> None:
    found = measured(Run(at=0, gpus=4, held=[(0, 1000)]), Run(at=100, gpus=4, held=[(100, 5000)]))
    assert found.usage.window_seconds == 100
    assert found.usage.utilisation == pytest.approx(4 / 8)


def test_fragmentation_is_the_torn_part_of_what_is_free() -> None:
    made = outcome(
        [Run(at=0, gpus=4, held=[(0, 1000)]), Run(at=100, held=[(100, 200)])], torn=[(0, 4), (50, 0)]
    )
    assert measure(made, {}).usage.fragmentation == pytest.approx((50 * 4) / (100 * 4))


def test_waits_are_kept_apart_from_what_is_held() -> None:
    runs = [Run(at=0, held=[(3, 5), (9, 12)]), Run(at=1, held=[(1, 4)]), Run(at=2), Run(at=2, left=7)]
    row, begin, end = pending_intervals(table_of(outcome(runs), {}))
    assert sorted(zip(row.tolist(), begin.tolist(), end.tolist(), strict=True)) == [
        (0, 0, 3),
        (0, 5, 9),
        (2, 2, 12),
        (3, 2, 7),
    ]


def test_areas_and_covers_are_those_of_a_walk_through_time() -> None:
    rng = random.Random(7)
    spans = [(b, b + rng.randint(1, 30), rng.randint(1, 9)) for b in (rng.randint(0, 200) for _ in range(40))]
    begin, end, weight = (np.array(each, dtype=float) for each in zip(*spans, strict=True))
    points = np.arange(0.0, 260.0, 7.0)
    walked = [
        sum(w for second in range(int(point)) for b, e, w in spans if b <= second < e) for point in points
    ]
    assert area_until(points, begin=begin, end=end, weight=weight) == pytest.approx(walked)
    some = [(b, e) for b, e, _ in spans[:12]]
    begin, end = (np.array(each, dtype=float) for each in zip(*some, strict=True))
    covered = [
        all(any(b <= second < e for b, e in some) for second in range(int(first), int(first) + 7))
        for first in points[:-1]
    ]
    assert any(covered)
    assert is_covered(points, begin=begin, end=end).tolist() == covered


def test_jain_compares_who_waited_all_the_hour() -> None:
    runs = [
        # a and b wait from the start; c only for a part of the second hour.
        Run(at=0, tenant="a", gpus=2, held=[(0, 2 * HOUR)]),
        Run(at=0, tenant="b", gpus=6, held=[(0, 2 * HOUR)]),
        Run(at=0, tenant="a", gpus=4, held=[(2 * HOUR, 2.5 * HOUR)]),
        Run(at=0, tenant="b", gpus=4, held=[(2 * HOUR, 2.5 * HOUR)]),
        Run(at=1.5 * HOUR, tenant="c", gpus=1, held=[(2 * HOUR, 2.5 * HOUR)]),
    ]
    found = measured(*runs, shares={"a": 4, "b": 4, "c": 1})
    a, b = 2 / 4, 6 / 4
    assert found.jain.index == pytest.approx((a + b) ** 2 / (2 * (a * a + b * b)))
    assert (found.jain.hours, found.jain.tenants) == (2, 2)


def test_who_asks_for_less_than_the_share_is_compared_with_that() -> None:
    runs = [
        Run(at=0, tenant="a", gpus=1, held=[(0, HOUR)]),
        Run(at=0, tenant="a", gpus=1, held=[(HOUR, 2 * HOUR)]),
        Run(at=0, tenant="b", gpus=4, held=[(0, HOUR)]),
        Run(at=0, tenant="b", gpus=4, held=[(HOUR, 2 * HOUR)]),
    ]
    parts, is_compared = parts_by_hour(table_of(outcome(runs), {"a": 4, "b": 4}))
    assert parts[:, 0].tolist() == pytest.approx([1 / 2, 1.0])
    assert is_compared[:, 0].tolist() == [True, True]
    # Whoever waits no longer is not compared.
    assert not is_compared[:, 1].any()


def test_what_could_never_start_is_compared_with_nobody() -> None:
    runs = [
        Run(at=0, tenant="a", gpus=64, fate=Fate.NEVER_FITS),
        Run(at=0, tenant="b", gpus=8, held=[(0, 2 * HOUR)]),
        Run(at=0, tenant="b", gpus=8, held=[(2 * HOUR, 3 * HOUR)]),
    ]
    assert measured(*runs, shares={"a": 4, "b": 4}).jain.index is None


def test_an_hour_in_which_nobody_got_anything_is_fair() -> None:
    parts, both = np.zeros((2, 1)), np.ones((2, 1), dtype=bool)
    assert jain_by_hour(parts, both).tolist() == [1.0]


def test_completion_times_on_a_private_share() -> None:
    # Two GPUs: the second waits for the first, and the third may not pass it.
    jobs = [(0.0, 1, 100.0), (10.0, 2, 50.0), (20.0, 1, 10.0), (500.0, 1, 5.0)]
    assert list(private_completions(jobs, gpus=2)) == [100, 140, 140, 5]


def test_completion_times_on_a_private_share_of_a_second_by_second_count() -> None:
    rng = random.Random(3)
    jobs = sorted(
        (float(rng.randint(0, 300)), rng.randint(1, 4), float(rng.randint(1, 40))) for _ in range(60)
    )
    assert list(private_completions(jobs, gpus=5)) == _second_by_second(jobs, 5)


def _second_by_second(jobs: list[tuple[float, int, float]], gpus: int) -> list[float]:
    waiting, running, done = list(range(len(jobs))), dict[int, float](), dict[int, float]()
    for now in range(10_000):
        for job in [job for job, end in running.items() if end <= now]:
            done[job] = now - jobs[job][0]
            del running[job]
        while waiting and jobs[waiting[0]][0] <= now:
            job = waiting[0]
            if sum(jobs[each][1] for each in running) + jobs[job][1] > gpus:
                break
            running[job] = now + jobs[job][2]
            waiting.pop(0)
    return [done[job] for job in range(len(jobs))]


def test_finish_time_fairness_is_beside_the_private_share() -> None:
    found = measured(
        Run(at=0, tenant="a", gpus=4, held=[(0, 100)]),
        Run(at=0, tenant="b", gpus=4, held=[(100, 200)]),
        shares={"a": 4, "b": 4},
    ).finish_time
    assert (found.rho.most, found.rho.mean, found.unfair) == (2, 1.5, 0.5)


def test_a_share_that_is_not_named_is_an_equal_part() -> None:
    table = table_of(outcome([Run(at=0, tenant="a"), Run(at=0, tenant="b")], up=8), {"a": 6})
    assert table.shares.tolist() == [6, 4]


def test_who_waited_beyond_the_bound_is_counted() -> None:
    found = measured(
        Run(at=0, held=[(50, 60)], bound=50),
        Run(at=0, held=[(52, 60)], bound=50),
        # The bound counts from when it came to wait last.
        Run(at=0, held=[(100, 200), (240, 250)], bound=50),
        Run(at=0, held=[(500, 600)]),
    ).bounds
    assert (found.bounded, found.beyond) == (3, 1)


def test_the_longest_waits_say_why() -> None:
    told = History(
        number=1,
        reasons=((0.0, ("WaitingForTurn",)), (10.0, ("Fragmented",)), (30.0, ("Fragmented",)), (40.0, ())),
    )
    runs = [Run(at=0, held=[(5, 50)]), Run(at=0, gpus=8, held=[(40, 60)]), Run(at=0, held=[(0, 5)])]
    first, second = measure(outcome(runs, histories=[told]), {}).longest
    assert (first.number, first.wait_seconds, first.gpus, first.has_started) == (1, 40, 8, True)
    assert [(each.begin_seconds, each.end_seconds, each.codes) for each in first.reasons] == [
        (0, 10, ("WaitingForTurn",)),
        (10, 40, ("Fragmented",)),
    ]
    assert dict(first.seconds_by_code) == {"Fragmented": 30, "WaitingForTurn": 10}
    assert (second.number, second.reasons) == (0, ())


def test_a_spread_is_that_of_the_standard_library() -> None:
    rng = random.Random(11)
    values = [rng.expovariate(1 / 100) for _ in range(997)]
    found = spread_of(np.array([*values, nan]))
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    assert (found.count, found.most) == (997, max(values))
    assert found.mean == pytest.approx(statistics.fmean(values))
    assert [found.p50, found.p90, found.p99] == pytest.approx([cuts[49], cuts[89], cuts[98]])


def test_quantiles_begin_with_the_least_and_end_with_the_most() -> None:
    found = quantiles_of(np.array([3.0, 1.0, nan, 2.0]))
    assert (found[0], found[100], found[-1]) == (1, 2, 3)
    assert quantiles_of(np.array([])) == ()


def test_nothing_at_all_has_no_figures() -> None:
    found = measured(Run(at=0, gpus=64, fate=Fate.NEVER_FITS))
    assert found.all.wait.mean is None
    assert (found.jain.index, found.finish_time.unfair, found.usage.utilisation) == (None, None, None)
    assert found.curve.at == ()
