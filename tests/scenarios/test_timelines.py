"""Every timeline of a folder, on the real planner, store, ledger and API, with a virtual clock.

`pytest tests/scenarios --scenarios DIR` runs another folder. A file that needs a feature which is
not built is an expected failure that names it; a file with an unknown word fails in any case.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios import checks, counters, features, invariants, steps
from tests.scenarios.scenario import Scenario, read
from tests.scenarios.stage import Stage


def test_timeline(scenario_path: Path, database_url: str, redis_url: str) -> None:
    scenario = read(scenario_path)
    missing = features.missing(scenario.needs)
    try:
        play(scenario, database_url, redis_url)
    except Exception as failure:
        if not missing:
            raise
        pytest.xfail(f"needs {', '.join(missing)}: {failure!s:.200}")


def play(scenario: Scenario, database_url: str, redis_url: str) -> None:
    """Run every step, then what is said to be right after it, then the rules of every file."""
    with Stage(scenario, database_url, redis_url) as stage:
        for step in scenario.body["timeline"]:
            stage.begin(step)
            steps.run(stage, step)
            stage.finish(step)
            invariants.check_all(stage)
            for block in scenario.blocks_after(step["step"]):
                judge(stage, block)


def judge(stage: Stage, block: dict[str, object]) -> None:
    where = f"{stage.scenario.path.name}, after step {block['after']}"
    try:
        invariants.check_block(stage, block)
        for counter in block.get("counters", []):  # type: ignore[attr-defined]
            _compare(counters.value(stage, counter), counter)
        for check in block.get("checks", []):  # type: ignore[attr-defined]
            checks.check(stage, check)
    except AssertionError as failure:
        raise AssertionError(f"{where}: {failure}\n{stage.picture()}") from failure


def _compare(value: int, counter: dict[str, object]) -> None:
    said = {key: counter[key] for key in counter if key != "why"}
    assert counter.get("is", value) == value, f"{said}: it is {value}"
    assert value >= counter.get("min", value), f"{said}: it is {value}"  # type: ignore[operator]
    assert value <= counter.get("max", value), f"{said}: it is {value}"  # type: ignore[operator]
