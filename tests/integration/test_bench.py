"""The benchmarks work: the smallest run of the cycle gives every figure, and files that say so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import cycle, decision
from bench.crowd import measure as crowd
from bench.crowd.site import Size
from bench.history import run as history
from bench.history import side
from bench.machine import describe_machine
from bench.page.markdown import write_page
from bench.results import Stored, read_stored, write_stored

SMALL = cycle.Size(nodes=4, queues=2, shapes=4, pending=16, changes=4, quiet_cycles=2, full_cycles=2)


@pytest.fixture
def stored(empty_database_url: str, redis_url: str, server_folder: Path) -> Stored:
    result = cycle.measure(empty_database_url, redis_url, SMALL, is_durable=False)
    return Stored(result=result, machine=describe_machine(server_folder), load_average=0.5, took_seconds=1.0)


def test_the_cycle_is_measured_whole_and_in_its_parts(stored: Stored, tmp_path: Path) -> None:
    write_stored(stored, tmp_path)
    written = json.loads((tmp_path / "cycle.json").read_text())
    figures = {figure["name"]: figure for figure in written["result"]["figures"]}
    assert {"quiet cycle, median", "decision of a quiet cycle, median", "admitting 4, median"} <= set(figures)
    assert all(figure["value"] > 0 and figure["unit"] == "ms" for figure in figures.values())
    parts = [part["name"] for part in written["result"]["parts"]]
    steps = [
        *(f"quiet: {step}" for step in ("read", "decide", "release", "publish")),
        *(f"full: {step}" for step in ("read", "decide", "release", "reserve", "commit", "publish")),
    ]
    assert parts[: len(steps)] == steps
    functions = parts[len(steps) :]
    assert {name.partition(",")[0] for name in functions} == {"quiet", "full"}
    assert "full, waiting for PostgreSQL" in functions
    machine = {"processor", "cores", "memory_gib", "system", "python", "postgresql", "valkey"}
    assert set(written["machine"]) == machine
    assert written["machine"]["postgresql"].startswith("18.")


def test_what_is_stored_is_read_again_and_shown(stored: Stored, tmp_path: Path) -> None:
    write_stored(stored, tmp_path)
    assert read_stored(tmp_path) == [stored]
    write_page(tmp_path, tmp_path / "performance.md")
    page = (tmp_path / "performance.md").read_text()
    for figure in (*stored.result.figures, *stored.result.parts):
        assert figure.name in page
    assert stored.machine.processor in page


def test_servers_that_do_not_sync_are_not_measured(empty_database_url: str, redis_url: str) -> None:
    with pytest.raises(RuntimeError, match="fsync off"):
        cycle.measure(empty_database_url, redis_url, SMALL)


def test_a_long_past_is_measured_beside_a_fresh_database(
    empty_database_url: str, redis_url: str, tmp_path: Path
) -> None:
    size = history.Size(ended=500, rounds=2, singles=2)
    result = history.measure(empty_database_url, redis_url, tmp_path, size=size, is_durable=False)
    assert [figure.name for figure in result.figures] == [
        f"{step}, long past to fresh" for step in ("submit", "feed", "commit", "observe")
    ]
    assert all(figure.value > 0 and figure.at_most == 1.5 for figure in result.figures)
    parts = [part.name for part in result.parts]
    assert parts[:8] == [f"{step}, {side}" for step in side.HOT for side in ("fresh", "long past")]
    assert {name.partition(",")[0] for name in parts[8:]} == set(side.HOT)
    assert result.limit


def test_a_crowd_waits_behind_a_cluster_that_is_mostly_full(empty_database_url: str, redis_url: str) -> None:
    size = Size(nodes=80, queues=4, cohorts=2, shapes=20, pending=200)
    found = crowd.measure(empty_database_url, redis_url, size, cycles=2, others=(10,), is_durable=False)
    assert found.cold > 0
    assert {changes: len(seconds) for changes, seconds in found.warm.items()} == {10: 3, 100: 2}
    # Of the nodes that were left some went to those who waited.
    assert found.admitted > 0


def test_the_decision_alone_is_measured_by_how_much_changed() -> None:
    size = decision.Size(queues=20, cohorts=2, nodes=4, pending=100, steps=(0, 10), cycles=3)
    result = decision.measure(size)
    assert [figure.name for figure in result.figures] == [
        "0 changes before it, median",
        "10 changes before it, median",
    ]
    assert all(figure.value > 0 for figure in result.figures)
