"""Between any two writes of a thread lies a named point: seen by having all of them written down, under load
and in the course of evictions and resizes, where nothing else happens.

What counts as a write, `tracing/sitecustomize.py` says.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest

from tests import servers
from tests.e2e.stacks import Up, data_folder
from tests.faults import evictions, resizes
from tests.faults.moments import Moments
from tests.faults.scenarios import SCENARIOS
from tests.faults.strikes import S, Strike
from tests.faults.traces import Gap, Tracing
from tests.faults.trial import calm_on, load_on, start

#: Functions whose writes are no step of Muster's, each with its reason.
_NO_STEP = {
    "workers/worker.py:_listen": "RQ's books about its workers: nothing of ours reads them",
    "workers/worker.py:execute_job": "RQ's books about a job: the next one does what a lost one would have",
    "workers/worker.py:heartbeat": "RQ's sign of life of a worker",
    "workers/worker.py:request_stop": "RQ's note that a worker was told to stop",
    "workers/ticker.py:run": "RQ's books about its scheduler",
    "workers/ticker.py:heartbeat": "RQ's sign of life of a scheduler",
    "workers/ticker.py:<module>": "RQ asks the system who it is when it is imported",
    "workers/launchers/local/warm.py:_start_process": "opens a log, then starts the process: one start",
    "workers/launchers/simulated_journal.py:__init__": "tables that are not there yet are made empty",
    "workers/launchers/simulated_journal.py:drop_tombstones": "what is old is dropped at the next start",
    "workers/launchers/local/processes.py:send_signal": "kills are repeated until nobody is left",
}

#: Functions of which two writes in a row are one, each with its reason.
_ONE_WRITE = {
    "service/jobs.py:enqueue_cycles": "RQ notes the queue's name first, which means nothing without a job",
    "service/jobs.py:wake_cycles": "the first try of a script that Redis did not know has done nothing",
    "service/inventory/ledger.py:raise_epoch": "the first try of a script that Redis did not know",
    "service/inventory/ledger.py:_call": "the first try of a script that Redis did not know",
    "service/inventory/ledger.py:mark": "the first try of a script that Redis did not know",
    "service/inventory/ledger.py:rebuild": "the first try of a script that Redis did not know",
    "service/inventory/verdicts.py:publish": "the first try of a script that Redis did not know",
}


_OWN = frozenset(
    {
        ("api", "database"),
        ("api", "redis"),
        ("worker", "database"),
        ("worker", "redis"),
        ("dispatcher", "database"),
        ("dispatcher", "redis"),
        ("dispatcher", "file"),
        ("ticker", "redis"),
    }
)
#: What each process writes to at least: else the tracing has become blind for it.
_TRACED = _OWN | {("spawner", "process"), ("spawner", "file")}
_REACH_SECONDS = 40.0


class _Harmless(Strike[S]):
    """Does everything that leads to some points, but nobody is killed there."""

    def __init__(self, trial: S, points: set[str], tracing: Tracing) -> None:
        super().__init__(trial, "")
        self._points = points
        self._tracing = tracing
        tracing.begin()

    def arm(self) -> None:
        self.trial.point.clear()

    def wait_struck(self) -> None:
        deadline = time.monotonic() + _REACH_SECONDS
        while missing := self._points - self._tracing.look():
            assert time.monotonic() < deadline, f"nothing leads to {sorted(missing)}"
            time.sleep(0.1)

    def take(self, lead_up: Callable[[Self], object]) -> None:
        lead_up(self)
        self.wait_struck()
        for undo in self.afterwards:
            undo()


@pytest.mark.xdist_group("points-0")
@pytest.mark.timeout(240)
@pytest.mark.slow
def test_no_write_follows_another_without_a_point_between(tmp_path: Path) -> None:
    settings = {"MUSTER_LOG_LIMIT_BYTES": "65536", "MUSTER_DISPATCH_BACKOFF_SECONDS": "1"}
    with (
        _traced(_TRACED | {("dispatcher", "process")}, **settings) as (up, tracing),
        load_on(up, tmp_path, pause_seconds=0.4) as trial,
    ):
        for scenario in dict.fromkeys(SCENARIOS.values()):
            points = {name for name, each in SCENARIOS.items() if each is scenario}
            _Harmless(trial, points, tracing).take(scenario)
            trial.assert_recovers()


@pytest.mark.xdist_group("points-1")
@pytest.mark.timeout(240)
@pytest.mark.slow
def test_nor_in_the_course_of_an_eviction(tmp_path: Path) -> None:
    with _traced(_TRACED) as (up, tracing):
        _take_all(evictions.MOMENTS, up, tracing, tmp_path)


@pytest.mark.xdist_group("points-1")
@pytest.mark.timeout(240)
@pytest.mark.slow
def test_nor_in_the_course_of_a_resize(tmp_path: Path) -> None:
    with _traced(_OWN, launcher="simulated", MUSTER_RESIZE_INTERVAL_SECONDS="0.5") as (up, tracing):
        _take_all(resizes.MOMENTS, up, tracing, tmp_path, is_simulated=True)


def _take_all(
    moments: Moments, up: Up, tracing: Tracing, folder: Path, *, is_simulated: bool = False
) -> None:
    for moment, points in moments.items():
        with calm_on(up, _new(folder), is_simulated=is_simulated) as scene:
            _Harmless(scene, set(points), tracing).take(moment)


def _new(folder: Path) -> Path:
    made = folder / uuid.uuid4().hex
    made.mkdir()
    return made


@contextmanager
def _traced(
    least: Set[tuple[str, str]], *, launcher: str = "local", **settings: str
) -> Iterator[tuple[Up, Tracing]]:
    """A stack that writes down what its processes write; `least`: who writes to what in the block. In the end
    there must be no gap."""
    with servers.server_folder() as folder, data_folder(folder) as data:
        tracing = Tracing(folder, data, no_step=_NO_STEP)
        up = start(data, launcher=launcher, **settings, **tracing.environment)
        yield up, tracing
        assert up.stop() == 0
        tracing.look()
    assert tracing.seen >= least
    gaps = Counter(gap for gap in tracing.gaps if not _is_one_write(gap))
    assert not gaps, "\n".join(f"{times} x {gap}" for gap, times in gaps.most_common())


def _is_one_write(gap: Gap) -> bool:
    return gap.first.where == gap.second.where and gap.first.where in _ONE_WRITE
