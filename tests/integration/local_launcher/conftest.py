"""A local launcher on a folder of the test, and what it takes to look behind it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.local_launcher.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A launcher; all that it started is ended afterwards."""
    made = Bench(tmp_path)
    try:
        yield made
    finally:
        made.end()
