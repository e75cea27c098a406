"""The dispatcher's process: it looks when somebody rings, when its launcher has news and when something
falls due. Looking every second is only the safety net."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import psycopg
import redis
import structlog
from sqlalchemy.exc import SQLAlchemyError

from service.clock import Clock, SystemClock
from service.inventory.client import make_blocking_client, make_client
from service.inventory.keys import dispatcher_bell
from service.inventory.listing import publish_listing
from service.inventory.pass_stats import add_pass_stats
from service.inventory.timings import Timings
from service.jobs import wake_cycles
from service.points import reach
from service.settings import Settings
from service.store.engine import make_engine
from workers.bootstrap import backoff, process_name, stop_on_signals
from workers.dispatcher import Dispatcher
from workers.heartbeat import Heartbeat
from workers.launchers.make import make_launcher

__all__ = ["Dispatcher", "run"]

_log = structlog.get_logger(__name__)

#: A blocked reader costs nothing; it looks up this often to see that it should stop.
_BELL_SECONDS = 2
_STANDBY_SECONDS = 0.2
#: What falls due without a ring is seen no later than this.
_SOON_SECONDS = 0.02


def run(settings: Settings) -> None:
    """Serve the settings' pool until SIGTERM or SIGINT. Members live on."""
    stop = threading.Event()
    stop_on_signals(stop)
    heartbeat = Heartbeat(settings, "dispatcher")
    heartbeat.start()
    clock = SystemClock()
    launcher = make_launcher(settings, clock)
    engine = make_engine(settings.database_url, pool_size=2, application_name="muster dispatcher")
    client = make_client(settings.redis_url)

    def ring_leader() -> None:
        try:
            wake_cycles(client, frees=True)
            reach("dispatcher.leader-rung")
        except redis.RedisError as error:
            _log.warning("wake_up_dropped", error=type(error).__name__)

    dispatcher = Dispatcher(
        engine,
        launcher,
        pool_name=settings.pool,
        clock=clock,
        settings=settings,
        ring_leader=ring_leader,
        holder=process_name("dispatcher"),
    )
    loop = DispatcherLoop(dispatcher, settings, clock=clock, stop=stop, client=client, heartbeat=heartbeat)
    launcher.on_change(loop.wake)
    try:
        loop.run()
    finally:
        heartbeat.end()
        dispatcher.close()
        launcher.stop()
        client.close()
        engine.dispose()


class DispatcherLoop:
    """Runs passes until `stop` is set, with a thread that listens to the bell and one that keeps the
    lease while a pass takes long."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        settings: Settings,
        *,
        clock: Clock,
        stop: threading.Event,
        client: redis.Redis,
        heartbeat: Heartbeat,
    ) -> None:
        self._dispatcher = dispatcher
        self._settings = settings
        self._clock = clock
        self._stop = stop
        self._news = threading.Event()
        self._busy_since: float | None = None
        self._client = client
        self._heartbeat = heartbeat
        self._lists_at = 0.0
        self._times = Timings()

    def wake(self) -> None:
        """There is something to look at. From any thread."""
        self._news.set()

    def run(self) -> None:
        """Pass, wait, pass. Stores that are away are tried again, with growing waits."""
        threads = [
            threading.Thread(target=target, name=target.__name__.strip("_"), daemon=True)
            for target in (self._listen, self._keep_lease)
        ]
        for thread in threads:
            thread.start()
        waits = backoff()
        while not self._stop.is_set():
            self._news.clear()
            try:
                seconds = self._pass()
            except (SQLAlchemyError, psycopg.Error) as error:
                seconds = next(waits)
                _log.warning("store_away", error=type(error).__name__, next_try_seconds=seconds)
                self._heartbeat.beat(f"waits for PostgreSQL ({type(error).__name__})", is_well=False)
                self._stop.wait(seconds)
            else:
                waits = backoff()
                self._heartbeat.beat("stands by" if self._dispatcher.pool_id is None else "serves its pool")
                self._news.wait(seconds)
        for thread in threads:
            thread.join()

    def _pass(self) -> float:
        """One pass; how long nothing will fall due after it."""
        with self._being_busy() as since:
            began_at = self._clock.now()
            self._dispatcher.pass_once()
            self._times.add(time.monotonic() - since)
            self._list(began_at)
        # Under load somebody rings long before anything falls due, and nobody has to ask when that is.
        if self._dispatcher.is_at_rest and self._news.wait(_SOON_SECONDS):
            return 0.0
        with self._being_busy():
            return self._seconds_until(self._dispatcher.next_due_at())

    @contextmanager
    def _being_busy(self) -> Iterator[float]:
        self._busy_since = since = time.monotonic()
        try:
            yield since
        finally:
            self._busy_since = None

    def _list(self, at: datetime) -> None:
        """Tell the audit what lives (R7), about once a second; `at` is no later than the look. The
        audit can do without for a while."""
        pool_id = self._dispatcher.pool_id
        if pool_id is None or time.monotonic() < self._lists_at:
            return
        self._lists_at = time.monotonic() + self._settings.dispatcher_poll_seconds
        try:
            publish_listing(self._client, pool_id, generations=self._dispatcher.live_generations(), at=at)
            reach("dispatcher.members-listed")
            times, self._times = self._times, Timings()
            add_pass_stats(self._client, self._settings.pool, times=times)
            reach("dispatcher.passes-counted")
        except redis.RedisError as error:
            _log.debug("listing_dropped", error=type(error).__name__)

    def _seconds_until(self, due_at: datetime | None) -> float:
        longest = self._settings.dispatcher_poll_seconds
        if due_at is None:
            return longest
        return min(longest, max(0.0, (due_at - self._clock.now()).total_seconds()))

    def _listen(self) -> None:
        """Block on the pool's bell: only who holds the lease takes a ring from it."""
        client = make_blocking_client(self._settings.redis_url)
        waits = backoff()
        while not self._stop.is_set():
            pool_id = self._dispatcher.pool_id
            if pool_id is None:
                self._stop.wait(_STANDBY_SECONDS)
                continue
            try:
                if client.blpop([dispatcher_bell(pool_id)], timeout=_BELL_SECONDS) is not None:
                    reach("dispatcher.bell-heard")
                    self.wake()
                waits = backoff()
            except redis.RedisError as error:
                seconds = next(waits)
                _log.warning("redis_away", error=type(error).__name__, next_try_seconds=seconds)
                self._stop.wait(seconds)
        client.close()

    def _keep_lease(self) -> None:
        """Renew, unless a pass has hung for longer than its bound: then others may have the pool."""
        while not self._stop.wait(self._settings.lease_seconds / 3):
            since = self._busy_since
            if since is not None and time.monotonic() - since > self._settings.cycle_bound_seconds:
                _log.error("pass_over_its_bound", bound_seconds=self._settings.cycle_bound_seconds)
                continue
            try:
                self._dispatcher.renew()
            except SQLAlchemyError as error:
                _log.warning("lease_renewal_failed", error=type(error).__name__)
