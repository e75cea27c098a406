"""A `kind: case` file is prose: a test written by hand covers it, and this one sees that it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios import features
from tests.scenarios.conftest import OWN_FILES
from tests.scenarios.scenario import ScenarioError, files_in, read

_CASES = [path for path in files_in(OWN_FILES) if not read(path).is_timeline]


@pytest.mark.parametrize("path", _CASES, ids=lambda path: path.stem)
def test_a_case_has_a_test_written_by_hand(path: Path) -> None:
    case = read(path)
    tests = list(Path(__file__).parent.glob(f"test_case_{case.id}*.py"))
    assert tests or features.missing(case.needs), f"no tests/scenarios/test_case_{case.id}*.py"


_GOOD = """
id: '900'
kind: timeline
source: owner/repo#1
area: gang-admission
title: A file that is right
confidence: high
needs: [gangs]
cluster: {nodes: [{name: n1, gpus: 1}]}
queues: [{name: q1, nominal_quota: {mx: 1}}]
timeline:
  - {step: 1, at: 0, do: submit, group: g1, queue: q1, roles: [{gpus: 1}]}
wrong: nothing
right:
  - after: 1
    pending: {g1: [CAPACITY]}
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("needs: [gangs]", "needs: [teleport]"),
        ("do: submit", "do: teleport"),
        ("gpus: 1}]}\nwrong", "gpus: 1, colour: red}]}\nwrong"),
        ("group: g1, queue", "group: g1, by: nobody, queue"),
        ("pending: {g1:", "pending: {g2:"),
        ("step: 1, at", "step: 2, at"),
        ("- after: 1", "- after: 7"),
        ("pending: {g1: [CAPACITY]}", "counters: [{counter: luck, is: 1}]"),
        ("pending: {g1: [CAPACITY]}", "checks: [{check: luck}]"),
        ("pending: {g1: [CAPACITY]}", "checks: [{check: cause, group: g7, is: Unknown}]"),
        ("wrong: nothing", ""),
    ],
)
def test_a_file_with_an_unknown_word_is_refused(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(_GOOD)
    read(path)
    assert old in _GOOD
    path.write_text(_GOOD.replace(old, new))
    with pytest.raises(ScenarioError):
        read(path)
