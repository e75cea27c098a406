"""A worker process that is stopped at one exact point of its cycle, and wakes after another took over.

The point is a message to PostgreSQL: the line that carries it stops the process before the server hears
the message, or before the process hears the answer.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from service import jobs
from service.domain.unit import unit_id
from tests.integration.leader.processes import running, stop, wait_until
from tests.integration.leader.site import Site, gang
from tests.integration.leader.test_interleavings import assert_books_agree, holders
from tests.lines import PostgresLine, Talk, once

LEASE_SECONDS = 2.0
ROOT = Path(__file__).parent.parent.parent.parent
#: So long after the end of the lease another one leads at the latest.
TAKEOVER_SECONDS = 5.0

FENCE = b"FROM leadership l, config c"
DEVICES = b"INSERT INTO held_devices"
POINTS = (
    "reserved, nothing written",
    "holds the epoch",
    "in the middle of its statement",
    "before COMMIT",
    "after COMMIT",
)


class Frost:
    """Stops a process from inside the line to PostgreSQL, and holds its message until `thaw`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._is_frozen = threading.Event()
        self._is_thawed = threading.Event()
        self.frozen_at = 0.0

    def stop(self, _: Talk) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)
        self.frozen_at = time.monotonic()
        self._is_frozen.set()
        self._is_thawed.wait(60)

    def wait(self) -> None:
        assert self._is_frozen.wait(20), "it never came to that point"

    def thaw(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)
        self._is_thawed.set()


@pytest.fixture
def line(database_url: str, server_folder: Path) -> Iterator[PostgresLine]:
    with PostgresLine(database_url, server_folder) as line:
        yield line


def holder(site: Site) -> str:
    name: str = site.rows("SELECT holder FROM leadership")[0][0]
    return name


def epoch_of(site: Site) -> int:
    epoch: int = site.rows("SELECT epoch FROM leadership")[0][0]
    return epoch


def set_trap(line: PostgresLine, point: str, frost: Frost) -> None:
    """Have the line stop the process at `point` of its next cycle that admits anything."""
    committing: set[Talk] = set()
    stop_once = once(frost.stop)

    def stop_if_committing(talk: Talk) -> None:
        if talk in committing:
            stop_once(talk)

    match point:
        case "reserved, nothing written":
            line.before(FENCE, stop_once)
        case "holds the epoch":
            line.after(FENCE, stop_once)
        case "in the middle of its statement":

            def stop_half_way(talk: Talk) -> None:
                talk.send_half()
                frost.stop(talk)

            line.before(DEVICES, once(stop_half_way))
        case "before COMMIT":
            line.before(DEVICES, committing.add)
            line.before(b"COMMIT", stop_if_committing)
        case "after COMMIT":
            line.before(DEVICES, committing.add)
            line.after(b"COMMIT", stop_if_committing)


#: Leads, and stops while PostgreSQL waits for the next row of its COPY; says what came of it.
_IN_COPY = """
import os, signal, sys
from service.clock import SystemClock
from service.operations.lead import take_lease
from service.store.engine import make_direct_engine
with make_direct_engine(sys.argv[1]).connect() as conn:
    taken = take_lease(conn, holder="frozen", now=SystemClock().now(), lease_seconds=float(sys.argv[2]))
    transaction = conn.begin()
    conn.exec_driver_sql("SELECT epoch FROM leadership FOR SHARE")
    try:
        with conn.connection.driver_connection.cursor().copy("COPY held_devices FROM STDIN") as copy:
            copy.write_row((int(sys.argv[3]), 0, 1))
            print(taken, flush=True)
            os.kill(os.getpid(), signal.SIGSTOP)
        transaction.commit()
        print("committed")
    except Exception as error:
        print("refused")
        conn.invalidate()
"""


@pytest.mark.timeout(60)
def test_who_is_frozen_in_the_middle_of_copy_is_replaced_in_time(
    site: Site, database_url: str, redis_url: str, client: redis.Redis
) -> None:
    """L3: no timeout of PostgreSQL ends it. Its transaction holds the epoch and a device."""
    [group] = site.submit(spec=gang(2, 8))
    command = [sys.executable, "-c", _IN_COPY, database_url, str(LEASE_SECONDS), str(site.node_ids[0])]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as frozen:
        assert frozen.stdout is not None
        assert frozen.stdout.readline() == "1\n"
        frozen_at = time.monotonic()
        with running("worker", database_url=database_url, redis_url=redis_url) as worker:
            wait_until(lambda: epoch_of(site) == 2, seconds=LEASE_SECONDS + TAKEOVER_SECONDS)
            assert time.monotonic() - frozen_at < LEASE_SECONDS + TAKEOVER_SECONDS
            wait_until(lambda: site.statuses() == {unit_id(group, 0): "Admitted"})
            wait_until(lambda: len(holders(client)) == 1)
            frozen.send_signal(signal.SIGCONT)
            assert frozen.stdout.read() == "refused\n"
            assert stop(worker) == 0
    assert_books_agree(site, client)


@pytest.mark.timeout(90)
@pytest.mark.parametrize("point", POINTS)
def test_a_worker_frozen_in_its_cycle_is_replaced_in_time_and_wakes_harmless(
    site: Site, database_url: str, redis_url: str, client: redis.Redis, line: PostgresLine, point: str
) -> None:
    """L1-L4: its places go to a group that came later and is more urgent; what it says late is refused."""
    settings = {"redis_url": redis_url, "lease_seconds": LEASE_SECONDS, "cycle_rest_seconds": 0.001}
    with running("worker", database_url=line.url, **settings) as first:
        wait_until(lambda: holder(site))
        leader = holder(site)
        with running("worker", database_url=database_url, **settings) as second:
            frost = Frost(first)
            set_trap(line, point, frost)
            [early] = site.submit(spec=gang(2, 8))
            jobs.wake_cycles(client)
            frost.wait()
            [urgent] = site.submit(spec=gang(2, 8, priority=10))

            wait_until(lambda: holder(site) != leader, seconds=LEASE_SECONDS + TAKEOVER_SECONDS)
            assert time.monotonic() - frost.frozen_at < LEASE_SECONDS + TAKEOVER_SECONDS
            wait_until(lambda: "Admitted" in site.statuses().values())
            admitted = early if point == "after COMMIT" else urgent
            assert site.statuses()[unit_id(admitted, 0)] == "Admitted"
            wait_until(lambda: holders(client) == {(unit_id(admitted, 0), 1)})

            frost.thaw()
            epoch = epoch_of(site)
            # It is of use again: when the other one leaves, it leads.
            assert stop(second) == 0
        wait_until(lambda: epoch_of(site) > epoch)
        site.end(unit_id(admitted, 0))
        jobs.wake_cycles(client)
        other = urgent if admitted is early else early
        wait_until(lambda: site.statuses()[unit_id(other, 0)] == "Admitted")
        wait_until(lambda: holders(client) == {(unit_id(other, 0), 1)})
        assert stop(first) == 0
    assert site.held() == 16
    admissions = site.rows("SELECT group_id FROM events WHERE kind = 'Admitted' ORDER BY 1")
    assert admissions == [(early,), (urgent,)]
    assert_books_agree(site, client)
