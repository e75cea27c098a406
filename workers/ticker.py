"""The ticker: RQ's cron scheduler, made to speak JSON. A lost wake-up costs one tick, never a group.

Beside it one thread charges what was closed, one empties queues that are to go, and one drops what ended long
ago (K1)."""

from __future__ import annotations

import contextlib
import signal
import threading
from types import FrameType
from typing import Any

import redis
import structlog
from rq.cron import CronJob, CronScheduler
from rq.exceptions import StopRequested

from service import jobs
from service.clock import SystemClock
from service.inventory.client import make_client
from service.points import reach
from service.settings import Settings
from service.store.engine import make_engine
from workers.bootstrap import backoff, process_name, stop_on_signals
from workers.charging import Charging
from workers.draining import Draining
from workers.heartbeat import Heartbeat
from workers.retention import Retention

_log = structlog.get_logger(__name__)


def run(settings: Settings) -> None:
    """Tick until SIGTERM or SIGINT. RQ's scheduler ends when Redis is away; it is started again."""
    stop = threading.Event()
    heartbeat = Heartbeat(settings, "ticker")
    heartbeat.start()
    client = make_client(settings.redis_url)
    engine = make_engine(settings.database_url, pool_size=3, application_name="muster ticker")
    charging = Charging(engine)
    charging.start()
    draining = Draining(engine, client, clock=SystemClock())
    draining.start()
    retention = Retention(engine, client, settings=settings, clock=SystemClock())
    retention.start()
    waits = backoff(most_seconds=max(settings.tick_seconds, 1.0))
    # RQ's handler raises wherever the process is, also while it waits for Redis.
    with contextlib.suppress(StopRequested):
        while not stop.is_set():
            stop_on_signals(stop)
            ticker = Ticker(client, every_seconds=settings.tick_seconds, stop=stop, heartbeat=heartbeat)
            try:
                ticker.start()
            except redis.RedisError as error:
                seconds = next(waits)
                _log.warning("redis_away", error=type(error).__name__, next_try_seconds=seconds)
                heartbeat.beat(f"waits for Redis ({type(error).__name__})", is_well=False)
                stop.wait(seconds)
            else:
                waits = backoff(most_seconds=max(settings.tick_seconds, 1.0))
    stop_on_signals(stop)
    retention.stop()
    draining.stop()
    charging.stop()
    engine.dispose()
    heartbeat.end()
    client.close()


class Tick(CronJob):
    """Enqueues the cycle's job. RQ's own way pickles it."""

    def enqueue(self, connection: redis.Redis) -> None:  # type: ignore[override]
        """Without asking whether a job is on its way, for a killed worker leaves the flag behind; but
        not when one is still waiting: nobody runs them just now."""
        if jobs.waiting_jobs(connection) == 0:
            jobs.enqueue_cycles(connection)
            reach("ticker.job-enqueued")


class Ticker(CronScheduler):
    """One tick every `every_seconds`, until `stop` is set by a signal."""

    def __init__(
        self, connection: redis.Redis, *, every_seconds: float, stop: threading.Event, heartbeat: Heartbeat
    ) -> None:
        super().__init__(connection, name=process_name("ticker"))
        self._stop = stop
        self._heartbeat = heartbeat
        # RQ is annotated for whole seconds, and adds them as a timedelta.
        interval: Any = every_seconds
        self._cron_jobs.append(Tick(queue_name=jobs.CYCLES, func_name=jobs.RUN_CYCLES, interval=interval))

    def heartbeat(self) -> None:
        """RQ calls this after each tick."""
        super().heartbeat()
        self._heartbeat.beat("ticks")

    def _install_signal_handlers(self) -> None:
        def stop_now(_number: int, _frame: FrameType | None) -> None:
            self._stop.set()
            raise StopRequested

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop_now)
