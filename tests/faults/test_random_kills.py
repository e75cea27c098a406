"""Random kills one after the other, under load: a few here, `make chaos` does two hundred.

make chaos [SEED=number] [KILLS=number]

Once under a load of small groups, and twice while groups take places from each other: members that are
processes give way whole, simulated ones come and go one by one.
"""

from __future__ import annotations

import random
import time
from functools import partial
from pathlib import Path

import pytest

from tests import servers
from tests.e2e.stacks import Up, data_folder
from tests.faults.chaos import Chaos
from tests.faults.receipts import PolicyCounts, count_policy
from tests.faults.rivals import RIVALS, elastic_rival, long_rival, make_rivals, small_rivals
from tests.faults.strikes import insist
from tests.faults.trial import Trial, load_on, start
from tests.faults.witness import connect

#: Without --seed: the same in each run, so that what fails fails again.
_SEED = 20261130
_KILLS = 25
#: Most of these wait for a moment.
_AIMED_KILLS = 15
#: So often the stack is left alone until it is ready and the audit is clean.
_AUDIT_EVERY = 10
#: On the way of evictions, and of resizes.
_EVICTION_POINTS = (
    "worker.cycle-written",
    "dispatcher.members-told",
    "dispatcher.generations-closed",
    "worker.places-released",
    "worker.reserved",
)
_RESIZE_POINTS = (
    "worker.resizes-reserved",
    "worker.committed",
    "dispatcher.members-told",
    "dispatcher.members-closed",
    "worker.places-dropped",
)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    given = request.config.getoption("--seed", default=None)
    if given == "new":
        return random.SystemRandom().randrange(1 << 31)
    return int(given or _SEED)


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--kills", default=None) or _KILLS)


@pytest.fixture
def aimed_kills(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--kills", default=None) or _AIMED_KILLS)


@pytest.mark.xdist_group("stack")
@pytest.mark.timeout(1800)
@pytest.mark.slow
def test_random_kills_in_a_row(up: Up, tmp_path: Path, seed: int, kills: int) -> None:
    print(f"seed {seed}: `make chaos SEED={seed} KILLS={kills}` does the same again")
    with load_on(up, tmp_path, pause_seconds=0.4) as trial:
        _strike(trial, Chaos(trial, seed), kills)


@pytest.mark.xdist_group("stack")
@pytest.mark.timeout(1800)
@pytest.mark.slow
def test_random_kills_while_groups_give_way(up: Up, tmp_path: Path, seed: int, aimed_kills: int) -> None:
    with up.client() as client:
        make_rivals(client)
    with load_on(up, tmp_path, pause_seconds=0.6, groups=small_rivals) as trial:
        for queue in RIVALS:
            trial.run(long_rival(trial.journal, queue))
        _strike(trial, Chaos(trial, seed, points=_EVICTION_POINTS), aimed_kills)
    seen = _counts(trial)
    assert seen.evictions >= aimed_kills // 15


@pytest.mark.xdist_group("points-0")
@pytest.mark.timeout(1800)
@pytest.mark.slow
def test_random_kills_while_groups_grow_and_shrink(tmp_path: Path, seed: int, aimed_kills: int) -> None:
    with servers.server_folder() as folder, data_folder(folder) as data:
        up = start(data, launcher="simulated", MUSTER_RESIZE_INTERVAL_SECONDS="0.2")
        with up.client() as client:
            make_rivals(client)
        with load_on(up, tmp_path, pause_seconds=0.8, groups=small_rivals, is_simulated=True) as trial:
            elastic = [trial.run(elastic_rival(trial.journal, queue), "Cancelled") for queue in RIVALS]
            _strike(trial, Chaos(trial, seed, points=_RESIZE_POINTS, has_processes=False), aimed_kills)
            for group in elastic:
                insist(partial(trial.client.cancel, group))
        seen = _counts(trial)
        assert up.stop() == 0
    assert min(seen.evictions, seen.shrinks, seen.growths) >= aimed_kills // 15


def _counts(trial: Trial) -> PolicyCounts:
    with connect(trial.up.data) as conn:
        counts = count_policy(conn, trial.journal.label)
    print(counts)
    return counts


def _strike(trial: Trial, chaos: Chaos, kills: int) -> None:
    began = time.monotonic()
    for number in range(1, kills + 1):
        said = chaos.strike()
        print(f"{number}, after {time.monotonic() - began:.1f} s: {said}", flush=True)
        if number % _AUDIT_EVERY == 0:
            trial.assert_recovers()
