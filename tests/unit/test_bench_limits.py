"""Each limit of the crowd is judged, and its growth is drawn over both of what it might follow."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.check.stored import Ratios
from bench.crowd.result import Found, result_of
from bench.crowd.site import Size
from bench.machine import Machine
from bench.page.markdown import render
from bench.results import Result, Stored, read_stored, write_stored

GIB = 2**30


def crowd(*, cold: float = 4.0, warm: float = 0.1, smaller: float = 0.09, memory: int = GIB) -> Result:
    def found(seconds: float) -> Found:
        return Found(cold=cold, warm={10: [0.01], 100: [seconds] * 3, 1000: [1.0]}, memory=memory)

    return result_of(Size(), {10_000: found(smaller), 100_000: found(warm)})


def judged(result: Result) -> dict[str, bool]:
    return {each.name: each.is_kept for each in result.figures if each.is_kept is not None}


def test_every_limit_is_kept() -> None:
    assert judged(crowd()) == dict.fromkeys(
        [
            "cold cycle",
            "warm cycle, median",
            "warm cycle, 100,000 waiting to 10,000",
            "memory of the process",
        ],
        True,
    )


@pytest.mark.parametrize(
    ("result", "broken"),
    [
        (crowd(cold=5.01), "cold cycle"),
        (crowd(warm=0.151, smaller=0.15), "warm cycle, median"),
        (crowd(warm=0.1, smaller=0.04), "warm cycle, 100,000 waiting to 10,000"),
        (crowd(memory=2 * GIB), "memory of the process"),
    ],
)
def test_a_limit_that_is_not_kept_is_told(result: Result, broken: str) -> None:
    assert [name for name, is_kept in judged(result).items() if not is_kept] == [broken]


def test_the_same_medians_are_drawn_over_what_changed_and_over_what_waits() -> None:
    changed, waits = crowd().charts
    assert {line.name: line.points for line in changed.lines} == {
        "10,000 wait": [(10, 10.0), (100, 90.0), (1000, 1000.0)],
        "100,000 wait": [(10, 10.0), (100, 100.0), (1000, 1000.0)],
    }
    assert {line.name: line.points for line in waits.lines}["100 changes"] == [
        (10_000, 90.0),
        (100_000, 100.0),
    ]


def test_charts_are_stored_and_shown(tmp_path: Path) -> None:
    machine = Machine(
        processor="x", cores=2, memory_gib=1, system="x", python="3", postgresql="18.0", valkey="9.0"
    )
    stored = Stored(result=crowd(), machine=machine, load_average=0.1, took_seconds=1.0)
    write_stored(stored, tmp_path)
    assert read_stored(tmp_path) == [stored]
    page = render([stored], Ratios(machine=machine, ratios={"a gauge": 1.5}), images=Path("results"))
    assert "(results/crowd.svg)" in page
    assert "| a gauge | 1.5 |" in page
