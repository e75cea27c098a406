"""Each promise of docs/guarantees.md names tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guarantees.md").read_text()
#: `tests/folder/file.py::test_name`, also one case of it: `…::test_name[case]`.
TESTS = re.findall(r"`(tests/[\w/]+\.py)::(\w+)(?:\[[^\]`]+\])?`", PAGE)
#: A row of a table that is neither its head nor the line below.
ROWS = [line for line in PAGE.splitlines() if re.match(r"\| (?!promise|rule|fault|---)", line)]


@cache
def functions(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize(("file", "name"), sorted(set(TESTS)), ids="::".join)
def test_it_exists(file: str, name: str) -> None:
    assert name in functions(file)


def test_no_promise_is_without_a_test() -> None:
    assert ROWS
    assert [row for row in ROWS if not re.search(r"`tests/[\w/]+\.py::\w+", row)] == []
