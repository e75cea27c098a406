"""The Redis of a whole stack is away for long, or comes back with its past."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.stacks import Up, wait_status
from tests.faults import faults
from tests.faults.asker import Asker
from tests.faults.trial import Trial, load_on

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(240), pytest.mark.slow]

#: Longer than any lease, heartbeat or pause between tries.
LONG_OUTAGE_SECONDS = 60.0
#: No process of the stack may take more of a processor than this meanwhile.
MOST_SHARE = 0.35


def redis_log(up: Up) -> Path:
    """The folder of the append-only files."""
    return up.data / "valkey" / "appendonlydir"


def put_back(up: Up, kept: Path) -> None:
    """The whole folder as it was: an older snapshot of the disk."""
    shutil.rmtree(redis_log(up))
    shutil.copytree(kept, redis_log(up))


def cut_in_half(up: Up, _kept: Path) -> None:
    """The last half never came to the disk, nor the rest of the command in the middle."""
    for log in redis_log(up).glob("*.incr.aof"):
        with log.open("r+b") as file:
            file.truncate(log.stat().st_size // 2)


def lose_all(up: Up, _kept: Path) -> None:
    shutil.rmtree(redis_log(up))


@pytest.mark.parametrize("change", [put_back, cut_in_half, lose_all])
def test_a_redis_that_comes_back_with_its_past_changes_nothing(
    up: Up, tmp_path: Path, change: Callable[[Up, Path], None]
) -> None:
    """R2-R4: its ledger gives places away that are held, its queues list who has started, and RQ finds
    jobs that are done."""
    with load_on(up, tmp_path) as trial:
        kept = tmp_path / "kept"
        shutil.copytree(redis_log(up), kept)
        done_since(trial)
        with faults.gone(up, "valkey"):
            change(up, kept)
        trial.assert_recovers()
        done_since(trial)
        trial.assert_unharmed()


def done_since(trial: Trial) -> None:
    """Some groups come, run and end."""
    for _ in range(2):
        wait_status(trial.client, trial.submit(trial.journal.gang(1)), "Succeeded")


def test_redis_that_is_away_for_a_minute(up: Up, tmp_path: Path) -> None:
    """What runs goes on and ends, what is submitted is kept, and nobody spins meanwhile."""
    with load_on(up, tmp_path, pause_seconds=2.0) as trial:
        running = trial.run(trial.journal.gang(2, seconds=5.0))
        spending = faults.Spending(up)
        with faults.gone(up, "valkey"):
            began_at = time.monotonic()
            asker = Asker(trial.client.address)
            assert "Redis" in asker.refused("GET", "/readyz")
            submitted = asker.ok("POST", "/v1/groups", trial.journal.gang(2), status=201)["id"]
            trial.expect(submitted)
            wait_status(trial.client, running, "Succeeded")
            time.sleep(LONG_OUTAGE_SECONDS - (time.monotonic() - began_at))
            assert asker.ok("GET", f"/v1/groups/{submitted}")["status"] == "Pending"
            shares = spending.shares()
        assert max(shares.values()) < MOST_SHARE, shares
        trial.assert_recovers()
        wait_status(trial.client, submitted, "Succeeded")
        trial.assert_unharmed()
