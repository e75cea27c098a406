"""The commands of docs/simulation.md, run as they stand there, and what the page says came of them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simulation.report.spans import span

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "simulation.md").read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where every command of the page has been run, in order."""
    folder = tmp_path_factory.mktemp("page")
    shutil.copytree(ROOT / "examples", folder / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL):
        subprocess.run(["sh", "-ec", block], cwd=folder, env=os.environ | {"PATH": path}, check=True)
    return folder


@pytest.fixture(scope="module")
def first(folder: Path) -> list[dict[str, Any]]:
    measures = json.loads((folder / "first.json").read_text())["measures"]
    assert isinstance(measures, list)
    return measures


def test_there_are_two_comparisons(folder: Path) -> None:
    assert PAGE.count("```sh\n") == 2
    assert all((folder / name).stat().st_size > 100_000 for name in ("first.html", "second.html"))


def test_the_table_is_what_comes_out(first: list[dict[str, Any]]) -> None:
    assert f"TODAY  {first[1]['policy'].upper()}" in PAGE
    for name in ("mean", "p50", "p90", "p99"):
        assert _line(name, [each["all"]["wait"][name] for each in first]) in PAGE
    for size in ("1", "2-4", "5-8", "9-16", "17-32"):
        assert _line(size, [_by_size(each, size) for each in first]) in PAGE
    assert _line("longest wait", [each["longest"][0]["wait_seconds"] for each in first]) in PAGE


def test_what_is_concluded_is_so(folder: Path, first: list[dict[str, Any]]) -> None:
    assert first[1]["all"]["wait"]["mean"] < first[0]["all"]["wait"]["mean"] / 2
    assert 1.9 < _by_size(first[1], "17-32") / _by_size(first[0], "17-32") < 2.1
    assert "LendingLimit" in dict(first[1]["longest"][0]["seconds_by_code"])
    assert "(21h 49m instead of 1d 01h)" in PAGE
    assert "21h 49m" in (folder / "second.html").read_text()


def test_the_cluster_is_that_of_the_file() -> None:
    (shown,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert (ROOT / "examples" / "simulation" / "small-cluster.yaml").read_text().endswith(shown)


def _by_size(measures: dict[str, Any], name: str) -> float:
    (found,) = (each["wait"]["mean"] for each in measures["by_size"] if each["name"] == name)
    assert isinstance(found, float)
    return found


def _line(label: str, values: list[float]) -> str:
    today, candidate = map(span, values)
    return f"  {label:<17}{today:>9}{candidate:>11}"
