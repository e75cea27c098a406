"""The worker process: killed, replaced, and with its stores away."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import pytest
import redis

from service import jobs
from service.inventory.client import make_client
from service.inventory.ledger import Ledger
from service.settings import Settings
from service.store.engine import make_engine
from service.store.migrate import upgrade
from tests.integration.leader.conftest import MakeLeader
from tests.integration.leader.processes import cpu_seconds, running, stop, wait_until
from tests.integration.leader.site import Site
from workers.embedded import postgres, valkey
from workers.embedded.postgres import PostgresServer
from workers.embedded.valkey import ValkeyServer
from workers.heartbeat import Heartbeat
from workers.tasks import CycleTask
from workers.worker import CycleWorker


def are_admitted(site: Site) -> bool:
    return set(site.statuses().values()) == {"Admitted"}


def holder(site: Site) -> str:
    name: str = site.rows("SELECT holder FROM leadership")[0][0]
    return name


def test_a_submit_is_admitted_by_a_wake_up_alone(
    site: Site, database_url: str, redis_url: str, client: redis.Redis
) -> None:
    with running("worker", database_url=database_url, redis_url=redis_url) as worker:
        wait_until(lambda: holder(site))
        site.submit()
        jobs.wake_cycles(client)
        wait_until(lambda: are_admitted(site))
        began_at = time.monotonic()
        assert stop(worker) == 0
        assert time.monotonic() - began_at < 3
    # It has given up its lease.
    assert site.rows("SELECT expires_at <= now() FROM leadership_expiry") == [(True,)]


@pytest.fixture
def own_signals() -> Iterator[None]:
    """RQ's handlers go away again."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_that_came_while_the_lease_was_taken_is_heard(
    own_signals: None, make_leader: MakeLeader, redis_url: str, tmp_path: Path
) -> None:
    """RQ puts its own handlers in place only later: it would wait for a job for half a minute."""
    stop = threading.Event()
    stop.set()
    with make_client(redis_url) as client:
        settings = Settings(data=tmp_path)
        task = CycleTask(make_leader(), client, settings=settings)
        heartbeat = Heartbeat(settings, "worker")
        began_at = time.monotonic()
        CycleWorker(task, client, stop=stop, heartbeat=heartbeat).work(logging_level="WARNING")
    assert time.monotonic() - began_at < 3


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_worker_killed_in_mid_job_costs_a_tick(
    site: Site, database_url: str, redis_url: str, client: redis.Redis, number: signal.Signals
) -> None:
    """J1, L3: its job and its wake flag stay behind; the ticker asks neither. A frozen one has to
    lose its lease first, a dead one's is free at once."""
    settings = {"database_url": database_url, "redis_url": redis_url, "lease_seconds": 3, "tick_seconds": 0.2}
    with running("worker", **settings) as first, running("ticker", **settings):
        wait_until(lambda: holder(site))
        leader = holder(site)
        site.execute(
            "CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$"
        )
        site.execute("CREATE TRIGGER linger AFTER INSERT ON attempts EXECUTE FUNCTION linger()")
        site.submit()
        jobs.wake_cycles(client)
        # It is in the middle of its transaction, which holds the epoch.
        wait_until(lambda: site.rows("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"))
        first.send_signal(number)
        with running("worker", **settings) as second:
            wait_until(lambda: holder(site) not in ("", leader))
            site.execute("DROP TRIGGER linger ON attempts")
            wait_until(lambda: are_admitted(site))
            assert stop(second) == 0
    assert site.held() == 1
    assert site.rows("SELECT count(*) FROM events WHERE kind = 'Admitted'") == [(1,)]
    state = Ledger(client).read()
    assert state is not None
    assert len(state.holders()) == 1


def test_nobody_commands_it_through_redis(
    site: Site, database_url: str, redis_url: str, client: redis.Redis
) -> None:
    """RQ's own workers can be shut down by whoever may publish."""
    with running("worker", database_url=database_url, redis_url=redis_url):
        wait_until(lambda: client.keys("rq:worker:*"))
        site.submit()
        jobs.wake_cycles(client)
        wait_until(lambda: are_admitted(site))
        assert client.pubsub_channels() == []


def test_a_dead_leader_is_replaced_long_before_its_lease_is_over(
    site: Site, database_url: str, redis_url: str, client: redis.Redis
) -> None:
    """Its connection is gone, and with it all that it could have written."""
    settings = {"database_url": database_url, "redis_url": redis_url, "lease_seconds": 3600}
    with running("worker", **settings) as first:
        wait_until(lambda: holder(site))
        first.kill()
        first.wait()
        site.submit()
        with running("worker", **settings) as second:
            wait_until(lambda: are_admitted(site))
            assert stop(second) == 0


def test_a_standby_takes_no_jobs_from_the_leader(
    site: Site, database_url: str, redis_url: str, client: redis.Redis
) -> None:
    settings = {"database_url": database_url, "redis_url": redis_url}
    with running("worker", **settings) as first:
        wait_until(lambda: holder(site))
        leader = holder(site)
        with running("worker", **settings) as second:
            for _ in range(5):
                site.submit()
                jobs.wake_cycles(client)
                wait_until(lambda: are_admitted(site))
                time.sleep(0.3)
            assert holder(site) == leader
            assert stop(first) == 0
            site.submit()
            jobs.wake_cycles(client)
            wait_until(lambda: are_admitted(site))
            assert holder(site) != leader
            assert stop(second) == 0


# ---------------------------------------------------------------- servers that go away
class Servers:
    """Servers of one test alone, which it stops and starts again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.postgres = self._start_postgres()
        self.valkey = self._start_valkey()

    def restart_postgres(self, *, away_seconds: float) -> None:
        self.postgres.stop()
        time.sleep(away_seconds)
        self.postgres = self._start_postgres()

    def restart_valkey(self, *, away_seconds: float) -> None:
        self.valkey.stop()
        time.sleep(away_seconds)
        self.valkey = self._start_valkey()

    def _start_postgres(self) -> PostgresServer:
        return PostgresServer.start(
            self._folder / "p", socket_dir=self._folder / "s", options=postgres.UNSAFE_FAST_OPTIONS
        )

    def _start_valkey(self) -> ValkeyServer:
        return ValkeyServer.start(
            self._folder / "v", socket_dir=self._folder / "s", options=valkey.UNSAFE_FAST_OPTIONS
        )


@pytest.fixture
def servers(server_folder: Path) -> Iterator[Servers]:
    servers = Servers(server_folder)
    upgrade(servers.postgres.url)
    yield servers
    servers.valkey.stop()
    servers.postgres.stop()


@contextmanager
def worker_and_ticker(servers: Servers) -> Iterator[tuple[Popen[bytes], Popen[bytes]]]:
    settings = {"database_url": servers.postgres.url, "redis_url": servers.valkey.url, "tick_seconds": 0.2}
    with running("worker", **settings) as worker, running("ticker", **settings) as ticker:
        yield worker, ticker


@pytest.mark.parametrize("which", ["postgres", "valkey"])
def test_a_server_that_was_away_needs_nobodys_help(servers: Servers, which: str) -> None:
    """Worker and ticker wait without spinning, and go on by themselves. An empty Redis is rebuilt."""
    engine = make_engine(servers.postgres.url)
    site = Site(engine)
    [first] = site.submit()
    with worker_and_ticker(servers) as (worker, ticker):
        wait_until(lambda: are_admitted(site))
        busy = cpu_seconds(worker) + cpu_seconds(ticker)
        if which == "postgres":
            engine.dispose()
            servers.restart_postgres(away_seconds=4)
        else:
            servers.restart_valkey(away_seconds=4)
        assert cpu_seconds(worker) + cpu_seconds(ticker) - busy < 2
        [second] = site.submit()
        wait_until(lambda: are_admitted(site))
        with make_client(servers.valkey.url) as client:
            wait_until(lambda: (state := Ledger(client).read()) and len(state.holders()) == 2)
        assert (stop(worker), stop(ticker)) == (0, 0)
    assert first != second
    engine.dispose()


def test_a_ticker_that_waits_for_redis_ends_in_good_order(database_url: str, tmp_path: Path) -> None:
    settings = {"redis_url": f"unix://{tmp_path}/nobody.sock", "runtime": tmp_path / "runtime"}
    with running("ticker", database_url=database_url, **settings) as ticker:
        sign = tmp_path / "runtime" / f"ticker.{ticker.pid}.json"
        wait_until(lambda: sign.exists() and b"waits for Redis" in sign.read_bytes())
        assert stop(ticker) == 0
    assert not sign.exists()
