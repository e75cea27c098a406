"""At each point that an eviction passes, from its decision to its receipt, somebody is killed.

Nothing else happens meanwhile, so it is that eviction which is struck. Afterwards section 13 holds, and
besides: whoever gave way did so once and has one receipt, and whom it gave way to came first.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.e2e.stacks import Up, data_folder
from tests.faults.evictions import MOMENTS
from tests.faults.kills import strike_at
from tests.faults.moments import Moment
from tests.faults.strikes import Strike
from tests.faults.trial import calm_on, start

pytestmark = [pytest.mark.timeout(120), pytest.mark.slow]


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    with servers.server_folder() as folder, data_folder(folder) as data:
        stack = start(data)
        yield stack
        assert stack.stop() == 0


@pytest.mark.parametrize(("moment", "point"), MOMENTS.cases())
def test_a_kill_on_the_way_harms_nothing(up: Up, tmp_path: Path, moment: Moment, point: str) -> None:
    with calm_on(up, tmp_path) as scene:
        strike_at(Strike(scene, point), moment)
