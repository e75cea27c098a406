"""Random kills one after the other, under load: a few here, `make chaos` does two hundred.

make chaos [SEED=number] [KILLS=number]
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.e2e.stacks import Up
from tests.faults.chaos import Chaos
from tests.faults.trial import load_on

#: Without --seed: the same in each run, so that what fails fails again.
_SEED = 20261130
_KILLS = 25
#: So often the stack is left alone until it is ready and the audit is clean.
_AUDIT_EVERY = 10


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    given = request.config.getoption("--seed", default=None)
    if given == "new":
        return random.SystemRandom().randrange(1 << 31)
    return int(given or _SEED)


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--kills", default=None) or _KILLS)


@pytest.mark.xdist_group("stack")
@pytest.mark.timeout(1800)
@pytest.mark.slow
def test_random_kills_in_a_row(up: Up, tmp_path: Path, seed: int, kills: int) -> None:
    print(f"seed {seed}: `make chaos SEED={seed} KILLS={kills}` does the same again")
    with load_on(up, tmp_path, pause_seconds=0.4) as trial:
        chaos = Chaos(trial, seed)
        for number in range(1, kills + 1):
            print(f"{number}: {chaos.strike()}", flush=True)
            if number % _AUDIT_EVERY == 0:
                trial.assert_recovers()
