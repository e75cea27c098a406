"""A pass that takes longer than the lease: it is kept, up to a bound."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from sqlalchemy import Engine

from service.clock import SystemClock
from tests.integration.dispatch.site import Site
from workers.dispatch import Dispatcher, DispatcherLoop
from workers.heartbeat import Heartbeat
from workers.launchers.simulated import SimulatedLauncher

_LEASE_SECONDS = 1.5
_LONGEST_SECONDS = 20.0


class Slow(SimulatedLauncher):
    """Starts nothing before it is let go."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.has_begun = threading.Event()
        self.may_go_on = threading.Event()

    def launch(self, members: Any) -> Any:
        self.has_begun.set()
        assert self.may_go_on.wait(_LONGEST_SECONDS)
        return super().launch(members)


class Pool:
    """The loop of a dispatcher with a slow launcher, and a second dispatcher that would have its pool."""

    def __init__(self, engine: Engine, redis_url: str, folder: Path, **settings: Any) -> None:
        settings = {"lease_seconds": _LEASE_SECONDS, "redis_url": redis_url, **settings}
        self.site = Site(engine, folder, start=SystemClock().now(), **settings)
        self.site.dispatcher.pass_once()
        self.site.dispatcher.close()
        self.unit = self.site.admit("g1", [("n1", (0,))])
        self.launcher = Slow(self.site.cluster, "p1")
        self.first = self._dispatcher(self.launcher, "first")
        self.second = self._dispatcher(SimulatedLauncher(self.site.cluster, "p1"), "second")
        self._stop = threading.Event()
        self._client = redis.Redis.from_url(redis_url)
        self._loop = DispatcherLoop(
            self.first,
            self.site.settings,
            clock=SystemClock(),
            stop=self._stop,
            client=self._client,
            heartbeat=Heartbeat(self.site.settings, "dispatcher"),
        )
        self._thread = threading.Thread(target=self._loop.run)
        self._thread.start()

    def end(self) -> None:
        self.launcher.may_go_on.set()
        self._stop.set()
        self._loop.wake()
        self._thread.join()
        for dispatcher in (self.first, self.second):
            dispatcher.close()
        self._client.close()
        self.site.close()

    def _dispatcher(self, launcher: SimulatedLauncher, holder: str) -> Dispatcher:
        return Dispatcher(
            self.site.engine,
            launcher,
            pool_name="p1",
            clock=SystemClock(),
            settings=self.site.settings,
            ring_leader=lambda: None,
            holder=holder,
        )


@pytest.fixture
def pool_of(engine: Engine, redis_url: str, tmp_path: Path) -> Iterator[Callable[..., Pool]]:
    made: list[Pool] = []

    def make(**settings: Any) -> Pool:
        made.append(Pool(engine, redis_url, tmp_path, **settings))
        return made[-1]

    yield make
    for pool in made:
        pool.end()


def wait_until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + _LONGEST_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_a_launcher_that_takes_twice_the_lease_loses_no_pool(pool_of: Callable[..., Pool]) -> None:
    pool = pool_of()
    assert pool.launcher.has_begun.wait(_LONGEST_SECONDS)
    epoch, ends_at = pool.first.epoch, time.monotonic() + 2 * _LEASE_SECONDS

    while time.monotonic() < ends_at:
        assert pool.second.pass_once() is False
        time.sleep(0.02)
    pool.launcher.may_go_on.set()

    wait_until(lambda: pool.site.status(pool.unit) == "Running")
    assert epoch is not None
    assert pool.first.epoch == epoch
    assert pool.second.epoch is None


def test_who_hangs_for_longer_than_the_bound_keeps_nobody_out(pool_of: Callable[..., Pool]) -> None:
    pool = pool_of(cycle_bound_seconds=0.3)
    assert pool.launcher.has_begun.wait(_LONGEST_SECONDS)

    wait_until(pool.second.pass_once)

    assert pool.site.status(pool.unit) == "Running"
    pool.launcher.may_go_on.set()
    # What it started late was there already, and what it would record is another's to say (X7, D1).
    wait_until(lambda: pool.first.epoch is None)
    assert pool.site.launched(pool.unit) == 1
    assert pool.site.events(pool.unit).count("Running") == 1
    assert pool.second.pass_once() is False
    assert pool.second.epoch is not None


def test_a_bound_that_was_passed_alone_costs_nothing(pool_of: Callable[..., Pool]) -> None:
    """Nobody wanted the pool meanwhile: it is still the same dispatcher's."""
    pool = pool_of(cycle_bound_seconds=0.3)
    assert pool.launcher.has_begun.wait(_LONGEST_SECONDS)
    epoch = pool.first.epoch
    wait_until(lambda: pool.site.rows("SELECT FROM dispatcher_expiries WHERE expires_at < now()"))

    pool.launcher.may_go_on.set()

    wait_until(lambda: pool.site.status(pool.unit) == "Running")
    assert pool.first.epoch == epoch
    wait_until(lambda: pool.site.rows("SELECT FROM dispatcher_expiries WHERE expires_at > now()"))
