"""Crash points: said by a variable, or by a file that can come while processes run; and their list."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from service.points import VARIABLE, Order
from tests.faults import resizes
from tests.faults.points_in_source import find_points, point_names
from tests.faults.scenarios import SCENARIOS

#: Names that more than one place has, each with its reason. There is none.
_TWICE: dict[str, str] = {}

_REACHES = """
import sys
from service.points import reach
for name in sys.argv[1:]:
    reach(name)
print("alive")
"""


def reaching(order: str | None, *names: str) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    if order is not None:
        environment[VARIABLE] = order
    return subprocess.Popen(
        [sys.executable, "-c", _REACHES, *names],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end_of(order: str | None, *names: str) -> tuple[int, str]:
    process = reaching(order, *names)
    said, _ = process.communicate(timeout=20)
    return process.returncode, said.strip()


def test_without_the_variable_nothing_happens() -> None:
    assert end_of(None, "a", "b") == (0, "alive")


def test_whoever_reaches_the_named_point_is_killed_there() -> None:
    assert end_of("b:kill", "a", "b") == (-signal.SIGKILL, "")
    assert end_of("c:kill", "a", "b") == (0, "alive")


def test_the_nth_time_counts() -> None:
    assert end_of("a:kill:3", "a", "b", "a") == (0, "alive")
    assert end_of("a:kill:3", "a", "a", "b", "a") == (-signal.SIGKILL, "")


def test_a_frozen_process_goes_on_when_it_is_woken() -> None:
    process = reaching("a:freeze", "a")
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    process.send_signal(signal.SIGCONT)
    said, _ = process.communicate(timeout=20)
    assert said.strip() == "alive"


def test_of_a_file_one_process_takes_note(tmp_path: Path) -> None:
    path = tmp_path / "point"
    assert end_of(str(path), "a") == (0, "alive")
    path.write_text("a:kill:2")
    assert end_of(str(path), "a", "b") == (0, "alive")
    process = reaching(str(path), "a", "a")
    process.communicate(timeout=20)
    assert process.returncode == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == [tmp_path / f"point.{process.pid}"]
    assert end_of(str(path), "a", "a") == (0, "alive")


@pytest.mark.parametrize("text", ["a", "a:", ":kill", "a:stop", "a:kill:x", "a:kill:-1"])
def test_what_cannot_be_understood_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=VARIABLE):
        Order.parse(text)


def test_every_point_has_a_literal_name_of_its_own() -> None:
    points = find_points()
    assert len(points) > 50
    assert [point.place for point in points if point.name is None] == []
    twice = {name for name, times in Counter(point.name for point in points).items() if times > 1}
    assert twice == _TWICE.keys()


def test_every_point_has_a_scenario_that_reaches_it() -> None:
    assert set(point_names()) == SCENARIOS.keys() | resizes.MOMENTS.points()
