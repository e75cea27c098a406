"""A local launcher on a folder of the test, and what it takes to look behind it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.local_launcher.bench import Bench


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose path leaves room for sockets, which `tmp_path` does not."""
    with tempfile.TemporaryDirectory(prefix="muster-test-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def bench(short_folder: Path) -> Iterator[Bench]:
    """A launcher; all that it started is ended afterwards."""
    made = Bench(short_folder)
    try:
        yield made
    finally:
        made.end()
