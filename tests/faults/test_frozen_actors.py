"""Workers and dispatchers of a whole stack that are frozen at one exact point, or come together."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.e2e.stacks import Up, wait_for, wait_status
from tests.faults import faults
from tests.faults.crash_point import wait_frozen
from tests.faults.trial import LEASE_SECONDS, Trial, load_on
from tests.faults.witness import connect
from workers.launchers.base import GenerationKey

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(180), pytest.mark.slow]

#: So long after the end of the frozen one's lease another one leads at the latest.
TAKEOVER_SECONDS = 5.0


def freeze_at(trial: Trial, point: str) -> tuple[int, float]:
    """Who comes to `point` next is frozen there: its pid, and when."""
    trial.point.set(point, "freeze")
    pid = trial.point.wait_struck()
    frozen_at = time.monotonic()
    wait_frozen(pid)
    trial.point.clear()
    return pid, frozen_at


def thaw(pid: int) -> None:
    psutil.Process(pid).resume()


def leader(up: Up) -> str:
    """Who holds the lease of the cycles."""
    with connect(up.data) as conn:
        row = conn.execute("SELECT holder FROM leadership").fetchone()
    assert row is not None
    return str(row[0])


def wait_for_another(up: Up, before: str) -> None:
    wait_for(lambda: True if leader(up) != before else None, "another one leads")


def dispatcher(up: Up) -> str:
    """Who holds the lease of the pool."""
    with connect(up.data) as conn:
        row = conn.execute("SELECT holder FROM dispatcher_leases").fetchone()
    assert row is not None
    return str(row[0])


# ------------------------------------------------------------ workers
@pytest.mark.parametrize("point", ["worker.reserved", "worker.cycle-written", "worker.published"])
def test_a_frozen_worker_is_replaced_in_time_and_wakes_harmless(up: Up, tmp_path: Path, point: str) -> None:
    """L1-L4: after it reserved and before it committed; between the last statement of its transaction and
    COMMIT; after all was done."""
    with load_on(up, tmp_path) as trial, faults.second(up, "worker"):
        before = leader(up)
        pid, frozen_at = freeze_at(trial, point)
        wait_for_another(up, before)
        assert time.monotonic() - frozen_at < LEASE_SECONDS + TAKEOVER_SECONDS
        wait_status(trial.client, trial.submit(trial.journal.gang(1, name="meanwhile")), "Succeeded")
        thaw(pid)
        wait_status(trial.client, trial.submit(trial.journal.gang(1, name="after")), "Succeeded")
        trial.assert_recovers()
        trial.assert_unharmed()


def test_a_standby_worker_takes_over_while_groups_stream_in(up: Up, tmp_path: Path) -> None:
    """By turns the leader is killed and told to stop; nobody waits for a lease to run out."""
    with load_on(up, tmp_path) as trial:
        for number in (signal.SIGKILL, signal.SIGTERM):
            with faults.second(up, "worker"):
                time.sleep(2)
                before = leader(up)
                killed = up.identity("worker")
                os.kill(killed.pid, number)
                wait_for_another(up, before)
                faults.wait_back(up, "worker", killed)
                done = trial.submit(trial.journal.gang(1, name="meanwhile"))
                wait_status(trial.client, done, "Succeeded")
        trial.assert_recovers()
        trial.assert_unharmed()


# ------------------------------------------------------------ dispatchers
def test_a_dispatcher_frozen_between_claim_and_launch_starts_nothing_late(up: Up, tmp_path: Path) -> None:
    """X1, X2, D1: what it claimed is cancelled, closed by its successor, and the places are given away. When
    it wakes it hands everything over, and every launch is refused."""
    with load_on(up, tmp_path) as trial, faults.second(up, "dispatcher"):
        before = dispatcher(up)
        pid, _ = freeze_at(trial, "dispatcher.attempts-claimed")
        claimed = claimed_attempts(up)
        assert claimed, "the load brings some"
        for attempt in claimed:
            trial.expect(attempt.group_id, "Cancelled")
            trial.client.cancel(attempt.group_id)
        wait_for(lambda: True if dispatcher(up) != before else None, "another one serves the pool")
        for attempt in claimed:
            wait_status(trial.client, attempt.group_id, "Cancelled")
        wait_for(lambda: find_holders(up, claimed), "others have their places")
        thaw(pid)
        wait_status(trial.client, trial.submit(trial.journal.gang(1, name="after")), "Succeeded")
        trial.assert_recovers()
        trial.assert_unharmed()
        begun = {key.of for key in trial.journal.notes().begun}
        assert not begun & {attempt.generation for attempt in claimed}


@dataclass(frozen=True)
class ClaimedAttempt:
    """What was claimed and not launched yet. `devices`: of the one node that there is."""

    generation: GenerationKey
    group_id: str
    devices: frozenset[int]


def claimed_attempts(up: Up) -> list[ClaimedAttempt]:
    with connect(up.data) as conn:
        rows = conn.execute(
            "SELECT a.unit_id, a.attempt, a.generation, g.public_id::text,"
            " (SELECT array_agg(h.device) FROM held_devices h WHERE h.unit_id = a.unit_id)"
            " FROM attempts a JOIN groups g ON g.id = a.group_id WHERE a.dispatch = 'Claimed'"
        ).fetchall()
    return [ClaimedAttempt(GenerationKey(*row[:3]), row[3], frozenset(row[4])) for row in rows]


def find_holders(up: Up, claimed: list[ClaimedAttempt]) -> list[int] | None:
    """Others that run on those devices."""
    devices = sorted(frozenset[int]().union(*(attempt.devices for attempt in claimed)))
    with connect(up.data) as conn:
        rows = conn.execute(
            "SELECT u.id FROM held_devices h JOIN units u ON u.id = h.unit_id"
            " WHERE h.device = ANY(%s) AND u.status = 'Running'",
            [devices],
        ).fetchall()
    others = {row[0] for row in rows} - {attempt.generation.unit_id for attempt in claimed}
    return sorted(others) or None


# ------------------------------------------------------------ all at once
def test_two_workers_and_two_dispatchers_started_at_once(up: Up, tmp_path: Path) -> None:
    with load_on(up, tmp_path) as trial:
        for _ in range(3):
            with ExitStack() as both:
                with faults.gone(up, "worker", "dispatcher"):
                    waiting = trial.submit(trial.journal.gang(4))
                    both.enter_context(faults.second(up, "worker"))
                    both.enter_context(faults.second(up, "dispatcher"))
                wait_status(trial.client, waiting, "Succeeded")
                trial.assert_recovers()
        trial.assert_unharmed()
