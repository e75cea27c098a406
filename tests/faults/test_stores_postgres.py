"""The PostgreSQL of a whole stack loses connections, a backend or all of itself, again and again."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.e2e.stacks import Up, wait_status
from tests.faults import faults
from tests.faults.trial import Trial, load_on
from tests.faults.witness import connect

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(240), pytest.mark.slow]

_ROUNDS = 30


def test_connections_that_are_cut_at_random(up: Up, tmp_path: Path) -> None:
    """Any backend, also several at once, also the leader's and the dispatcher's in mid-transaction."""
    chance = random.Random(20261130)
    with load_on(up, tmp_path, pause_seconds=0.1) as trial:
        for _ in range(_ROUNDS):
            cut(up, chance, most=chance.choice([1, 1, 1, 3, 50]))
            time.sleep(chance.uniform(0.0, 0.3))
        trial.assert_recovers()
        trial.assert_unharmed()


def cut(up: Up, chance: random.Random, *, most: int) -> None:
    """End so many backends that serve the stack; those that work first."""
    with connect(up.data) as conn:
        found = conn.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'muster%'"
            " AND pid <> pg_backend_pid() ORDER BY state = 'idle', pid"
        ).fetchall()
        pids = [row[0] for row in found]
        for pid in pids if most > len(pids) else chance.sample(pids, most):
            conn.execute("SELECT pg_terminate_backend(%s)", [pid])


def test_a_backend_that_is_killed_takes_all_others_with_it(up: Up, tmp_path: Path) -> None:
    """PostgreSQL ends every connection and recovers; numbers of transactions are handed out again (W3)."""
    with load_on(up, tmp_path) as trial:
        for _ in range(3):
            roll_some_back(up)
            kill_a_backend(up)
            trial.assert_recovers()
            goes_on(trial)
        trial.assert_unharmed()


def test_the_postmaster_is_killed_right_after_a_rollback(up: Up, tmp_path: Path) -> None:
    with load_on(up, tmp_path) as trial:
        for _ in range(2):
            roll_some_back(up)
            faults.kill(up, "postgres")
            trial.assert_recovers()
            goes_on(trial)
        trial.assert_unharmed()


def roll_some_back(up: Up) -> None:
    with connect(up.data) as conn:
        for _ in range(20):
            conn.execute("BEGIN")
            conn.execute("SELECT pg_current_xact_id()")
            conn.execute("ROLLBACK")


def kill_a_backend(up: Up) -> None:
    with suppress(psycopg.OperationalError), connect(up.data) as conn:
        os.kill(conn.info.backend_pid, signal.SIGKILL)
        conn.execute("SELECT 1")


def test_restarts_in_the_middle_of_everything(up: Up, tmp_path: Path) -> None:
    """As an operator restarts it: who is connected is disconnected, what is not committed is gone."""
    with load_on(up, tmp_path, pause_seconds=0.1) as trial:
        for _ in range(3):
            stopped = up.identity("postgres")
            psutil.Process(stopped.pid).send_signal(signal.SIGINT)
            faults.wait_back(up, "postgres", stopped)
            trial.assert_recovers()
            goes_on(trial)
        trial.assert_unharmed()


def goes_on(trial: Trial) -> None:
    wait_status(trial.client, trial.submit(trial.journal.gang(1)), "Succeeded")
