"""Between any two writes of a thread lies a named point: seen by having all of them written down.

What counts as a write, `tracing/sitecustomize.py` says.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from tests import servers
from tests.e2e.stacks import data_folder
from tests.faults.scenarios import SCENARIOS, Scenario, TrialStrike
from tests.faults.traces import Gap, Tracing
from tests.faults.trial import load_on, start

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


#: What each process writes to at least: else the tracing has become blind for it.
_TRACED = {
    ("api", "database"),
    ("api", "redis"),
    ("worker", "database"),
    ("worker", "redis"),
    ("dispatcher", "database"),
    ("dispatcher", "redis"),
    ("dispatcher", "process"),
    ("dispatcher", "file"),
    ("ticker", "redis"),
    ("spawner", "process"),
    ("spawner", "file"),
}
_REACH_SECONDS = 40.0


class _Harmless(TrialStrike):
    """Does everything that leads to the point, but nobody is killed there."""

    def arm(self) -> None:
        self.trial.point.clear()


@pytest.mark.xdist_group("points-0")
@pytest.mark.timeout(240)
@pytest.mark.slow
def test_no_write_follows_another_without_a_point_between(tmp_path: Path) -> None:
    with servers.server_folder() as folder, data_folder(folder) as data:
        tracing = Tracing(folder, data, no_step=_NO_STEP)
        settings = {"MUSTER_LOG_LIMIT_BYTES": "65536", "MUSTER_DISPATCH_BACKOFF_SECONDS": "1"}
        up = start(data, **settings, **tracing.environment)
        with load_on(up, tmp_path, pause_seconds=0.4) as trial:
            for scenario in dict.fromkeys(SCENARIOS.values()):
                strike = _Harmless(trial, "")
                tracing.begin()
                scenario(strike)
                _wait_reached(tracing, scenario)
                for undo in strike.afterwards:
                    undo()
                trial.assert_recovers()
        assert up.stop() == 0
        tracing.look()
    assert tracing.seen >= _TRACED
    gaps = Counter(gap for gap in tracing.gaps if not _is_one_write(gap))
    assert not gaps, "\n".join(f"{times} x {gap}" for gap, times in gaps.most_common())


def _wait_reached(tracing: Tracing, scenario: Scenario) -> None:
    wanted = {name for name, each in SCENARIOS.items() if each is scenario}
    deadline = time.monotonic() + _REACH_SECONDS
    while missing := wanted - tracing.look():
        assert time.monotonic() < deadline, f"{scenario.__name__} does not lead to {sorted(missing)}"
        time.sleep(0.1)


def _is_one_write(gap: Gap) -> bool:
    return gap.first.where == gap.second.where and gap.first.where in _ONE_WRITE
