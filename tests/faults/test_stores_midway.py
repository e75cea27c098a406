"""A store is killed in the middle of an eviction and of a resize, while whoever is at work stands still."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.e2e.stacks import Up, data_folder
from tests.faults import evictions, resizes
from tests.faults.faults import SERVICES, STORES
from tests.faults.kills import lose_store_at
from tests.faults.moments import Moment
from tests.faults.strikes import Strike
from tests.faults.trial import calm_on, start

pytestmark = [pytest.mark.timeout(120), pytest.mark.slow]

_EVICTION: tuple[tuple[Moment, str], ...] = (
    (evictions.two_are_about_to_give_way, "worker.cycle-written"),
    (evictions.two_are_about_to_give_way, "worker.committed"),
    (evictions.their_eviction_is_written_and_not_sent, "dispatcher.members-told"),
    (evictions.their_eviction_is_written_and_not_sent, "dispatcher.generations-closed"),
    (evictions.their_places_are_free_in_the_books, "worker.places-released"),
    (evictions.their_places_are_free_in_the_books, "worker.reserved"),
)
_RESIZE: tuple[tuple[Moment, str], ...] = (
    (resizes.places_are_free_that_nobody_waits_for, "worker.resizes-reserved"),
    (resizes.growth_is_written_and_not_sent, "dispatcher.members-launched"),
    (resizes.its_shrinking_is_written_and_not_sent, "dispatcher.members-closed"),
    (resizes.what_it_gave_up_is_free_in_the_books, "worker.places-dropped"),
)


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    with servers.server_folder() as folder, data_folder(folder) as data:
        stack = start(data)
        yield stack
        assert stack.stop() == 0


@pytest.fixture(scope="module")
def simulated() -> Iterator[Up]:
    """Members that can be started and stopped one by one."""
    with servers.server_folder() as folder, data_folder(folder) as data:
        stack = start(data, launcher="simulated", MUSTER_RESIZE_INTERVAL_SECONDS="0.5")
        yield stack
        assert stack.stop() == 0


@pytest.mark.xdist_group("points-0")
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize(("moment", "point"), _EVICTION, ids=lambda value: getattr(value, "__name__", value))
def test_of_an_eviction(up: Up, tmp_path: Path, moment: Moment, point: str, store: str) -> None:
    with calm_on(up, tmp_path) as scene:
        lose_store_at(Strike(scene, point), moment, store=store)
    assert_no_traceback(up)


@pytest.mark.xdist_group("points-1")
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize(("moment", "point"), _RESIZE, ids=lambda value: getattr(value, "__name__", value))
def test_of_a_resize(simulated: Up, tmp_path: Path, moment: Moment, point: str, store: str) -> None:
    with calm_on(simulated, tmp_path, is_simulated=True) as scene:
        lose_store_at(Strike(scene, point), moment, store=store)
    assert_no_traceback(simulated)


def assert_no_traceback(up: Up) -> None:
    """A store that is away is told in a line, by everybody."""
    logs = list((up.data / "logs" / "service").glob("*.log"))
    assert {log.stem for log in logs} >= set(SERVICES)
    told = [line for log in logs for line in log.read_text().splitlines() if "Traceback" in line]
    assert told == []
