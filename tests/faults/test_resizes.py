"""At each point that a resize passes, from its decision to its end, somebody is killed.

Members are simulated: that launcher can start and stop single ones. Afterwards section 13 holds, and
besides: the group has the size that it was to have, without a new start, and its revisions are told once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.e2e.stacks import Up, data_folder
from tests.faults.kills import strike_at
from tests.faults.moments import Moment
from tests.faults.resizes import MOMENTS
from tests.faults.strikes import Strike
from tests.faults.trial import calm_on, start

pytestmark = [pytest.mark.timeout(120), pytest.mark.slow]


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    with servers.server_folder() as folder, data_folder(folder) as data:
        stack = start(data, launcher="simulated", MUSTER_RESIZE_INTERVAL_SECONDS="0.5")
        yield stack
        assert stack.stop() == 0


@pytest.mark.parametrize(("moment", "point"), MOMENTS.cases())
def test_a_kill_on_the_way_harms_nothing(up: Up, tmp_path: Path, moment: Moment, point: str) -> None:
    with calm_on(up, tmp_path, is_simulated=True) as scene:
        strike_at(Strike(scene, point), moment)
