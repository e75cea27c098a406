"""A PostgreSQL that crashes or restarts under a leader: what it counted as seen, and what it was doing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis
from sqlalchemy import Engine, text

from service import jobs
from service.clock import VirtualClock
from service.domain.unit import unit_id
from service.settings import Settings
from service.store.engine import make_engine
from service.store.feed import read_position
from service.store.migrate import upgrade
from tests.integration.leader.processes import running, stop, wait_until
from tests.integration.leader.site import Site, gang
from tests.integration.leader.test_interleavings import assert_books_agree, holders
from workers.admission import Leader
from workers.embedded.postgres import PostgresServer

#: What is committed is written, and nothing else is, as far as settings can say so: a rollback leaves
#: no trace that a crash would keep.
_OPTIONS = {
    "fsync": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "wal_writer_delay": "10s",
    "autovacuum": "off",
}
READY_SECONDS = 10.0


class Crashing:
    """A PostgreSQL of one test, with a migrated database."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.server = self._start()
        upgrade(self.server.url)
        self.engine = make_engine(self.server.url)

    @property
    def url(self) -> str:
        return self.server.url

    def kill_a_backend(self) -> None:
        """SIGKILL one that does nothing: PostgreSQL ends all others and recovers."""
        with (
            psycopg.connect(self._conninfo, autocommit=True) as conn,
            psycopg.connect(self._conninfo) as other,
        ):
            victim = conn.info.backend_pid
            os.kill(victim, signal.SIGKILL)
            # Until it has seen that, it still answers.
            wait_until(lambda: not _answers(other))
        self._wait_until_it_answers()

    def kill_the_postmaster(self) -> None:
        self.server.process.kill()
        self.server.process.wait()
        self.server = self._start()

    def restart(self) -> None:
        """As an operator does: everybody is disconnected, what is not committed is rolled back."""
        self.server.stop()
        self.server = self._start()

    def close(self) -> None:
        self.engine.dispose()
        self.server.stop()

    @property
    def _conninfo(self) -> str:
        return f"host={self.server.socket_folder} user=muster dbname=postgres connect_timeout=3"

    def _wait_until_it_answers(self) -> None:
        def answers() -> bool:
            try:
                with psycopg.connect(self._conninfo) as conn:
                    return _answers(conn)
            except psycopg.OperationalError:
                return False

        wait_until(answers)

    def _start(self) -> PostgresServer:
        return PostgresServer.start(self._folder / "p", socket_dir=self._folder / "s", options=_OPTIONS)


def _answers(conn: psycopg.Connection) -> bool:
    try:
        conn.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


@pytest.fixture
def postgres(server_folder: Path) -> Iterator[Crashing]:
    postgres = Crashing(server_folder)
    yield postgres
    postgres.close()


@pytest.fixture
def engine(postgres: Crashing) -> Engine:
    return postgres.engine


def roll_back(engine: Engine, times: int) -> int:
    """Transactions that had a number and came to nothing; the highest of their numbers."""
    number = 0
    with engine.connect() as conn:
        for _ in range(times):
            transaction = conn.begin()
            number = conn.execute(text("SELECT pg_current_xact_id()::text::bigint")).scalar_one()
            transaction.rollback()
    return number


@pytest.mark.parametrize("who", ["a backend", "the postmaster"])
def test_a_number_that_is_handed_out_again_after_a_crash_is_not_missed(
    postgres: Crashing, site: Site, client: redis.Redis, clock: VirtualClock, who: str
) -> None:
    """W3: the leader's snapshot counts rolled back transactions as seen. After the crash their numbers are
    given to others, who commit."""
    leader = Leader(postgres.url, client, clock=clock, settings=Settings(), name="w1")
    assert leader.run_cycle().is_settled
    assert leader.hold_lease()
    assert leader.term is not None
    highest = roll_back(postgres.engine, 20)
    leader.term.read()
    with leader.term.conn.begin():
        assert int(read_position(leader.term.conn).snapshot.xmax) > highest, "all of them are seen"

    postgres.kill_a_backend() if who == "a backend" else postgres.kill_the_postmaster()

    postgres.engine.dispose()
    [group] = site.submit(spec=gang(2, 8))
    [row] = site.rows("SELECT xid::text::bigint AS xid FROM events WHERE group_id = :id", id=group)
    assert row.xid <= highest, "its number is one of those"
    assert sum(leader.run_cycle().admitted for _ in range(2)) == 1
    assert holders(client) == {(unit_id(group, 0), 1)}
    assert_books_agree(site, client)
    leader.abandon()


@pytest.mark.parametrize("how", ["restart", "kill_the_postmaster", "kill_a_backend"])
def test_a_restart_in_the_middle_of_a_cycle_is_gone_on_from(
    postgres: Crashing, site: Site, redis_url: str, client: redis.Redis, how: str
) -> None:
    """R3: the places are reserved in the ledger and written, but not committed, in PostgreSQL."""
    site.execute(
        "CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_sleep(1.5); RETURN NULL; END $$"
    )
    site.execute("CREATE TRIGGER linger AFTER INSERT ON held_devices EXECUTE FUNCTION linger()")
    settings = {"database_url": postgres.url, "redis_url": redis_url, "tick_seconds": 0.2}
    with running("worker", **settings) as worker, running("ticker", **settings) as ticker:
        wait_until(lambda: site.rows("SELECT holder FROM leadership")[0][0])
        [group] = site.submit(spec=gang(2, 8))
        jobs.wake_cycles(client)
        wait_until(lambda: site.rows("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"))
        assert holders(client) == {(unit_id(group, 0), 1)}
        postgres.engine.dispose()
        getattr(postgres, how)()
        back_at = time.monotonic()
        assert site.statuses() == {unit_id(group, 0): "Pending"}
        wait_until(lambda: site.statuses() == {unit_id(group, 0): "Admitted"})
        assert time.monotonic() - back_at < READY_SECONDS
        wait_until(lambda: holders(client) == {(unit_id(group, 0), 1)})
        assert (stop(worker), stop(ticker)) == (0, 0)
    assert site.rows("SELECT count(*) FROM events WHERE kind = 'Admitted'") == [(1,)]
    assert_books_agree(site, client)
