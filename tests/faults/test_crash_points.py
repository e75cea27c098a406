"""At every named point of the product somebody is killed by SIGKILL, under load; then section 13 holds.

The points are read from the source; tests/unit/test_points.py fails for one that no scenario reaches. Those
of resizes, which need another launcher, are in test_resizes.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.e2e.stacks import Up, data_folder
from tests.faults.kills import strike_at
from tests.faults.points_in_source import point_names
from tests.faults.scenarios import SCENARIOS
from tests.faults.strikes import Strike
from tests.faults.trial import load_on, start


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    """One stack for many points, in which logs are small and a refused launch is soon tried again."""
    with servers.server_folder() as folder, data_folder(folder) as data:
        stack = start(data, MUSTER_LOG_LIMIT_BYTES="65536", MUSTER_DISPATCH_BACKOFF_SECONDS="1")
        yield stack
        assert stack.stop() == 0


@pytest.mark.timeout(120)
@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [
        pytest.param(name, marks=pytest.mark.xdist_group(f"points-{index % 2}"))
        for index, name in enumerate(point for point in point_names() if point in SCENARIOS)
    ],
)
def test_a_kill_at_the_point_harms_nothing(up: Up, tmp_path: Path, point: str) -> None:
    with load_on(up, tmp_path, pause_seconds=0.08) as trial:
        strike_at(Strike(trial, point), SCENARIOS[point])
