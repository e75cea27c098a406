"""Replays of traces that are not part of the project. `make test-traces` runs this folder; `make test` does
not.

They lie beside the checkout in `../shared/data/traces`, or where MUSTER_TRACES says; where they are not, all
of this is skipped. Rows that take minutes are left out too, unless `--all-rows` is given.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_BESIDE = Path(__file__).parent.parent.parent.parent / "shared" / "data" / "traces"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all-rows", action="store_true", help="replay also what takes minutes")


@pytest.fixture(scope="session")
def traces() -> Path:
    folder = Path(os.environ.get("MUSTER_TRACES", _BESIDE))
    if not (folder / "philly").is_dir():
        pytest.skip(f"no traces in {folder}: get them, or name their folder in MUSTER_TRACES")
    return folder


@pytest.fixture
def philly(traces: Path) -> Path:
    return traces / "philly"


@pytest.fixture
def runs_all(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--all-rows"))
