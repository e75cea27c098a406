"""Retention in the ticker's process: a thread that drops what ended long ago, in short runs (K1)."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import redis
import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from service.clock import Clock
from service.inventory.retention_stats import RetentionStats, add_retention_stats
from service.operations.retain import drop_ended_groups, drop_old_events
from service.points import reach
from service.settings import Settings

_log = structlog.get_logger(__name__)


class Retention:
    """Several may run at once: what one has locked the others leave alone. Stores that are away cost
    nothing but time."""

    def __init__(self, engine: Engine, client: redis.Redis, *, settings: Settings, clock: Clock) -> None:
        self._engine = engine
        self._client = client
        self._clock = clock
        self._kept = timedelta(days=settings.retention_days)
        self._period_seconds = settings.retention_period_seconds
        self._run_seconds = settings.retention_run_seconds
        self._after_id = 0
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Run now and then until `stop`; not at all if groups are kept for ever."""
        if self._kept:
            self._thread = threading.Thread(target=self._keep_running, name="retention", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it, a step at the most."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()

    def run_once(self) -> RetentionStats:
        """Drop for `retention_run_seconds` at most, from where the last run stopped. Raises
        SQLAlchemyError when PostgreSQL is away: then nothing of the last step has happened."""
        began_at = time.monotonic()
        stats = RetentionStats(runs=1, at=self._clock.now())
        stats.events = drop_old_events(self._engine, kept=self._kept, now=self._clock.now())
        reach("ticker.old-events-dropped")
        stats.is_behind = True
        while not self._is_over.is_set() and time.monotonic() - began_at < self._run_seconds:
            step_at = time.monotonic()
            done = drop_ended_groups(
                self._engine, after_id=self._after_id, kept=self._kept, now=self._clock.now()
            )
            reach("ticker.ended-groups-dropped")
            stats.groups += done.groups
            stats.keys += done.keys
            self._after_id = done.last_id or 0
            if done.last_id is None:
                stats.is_behind = False
                break
            # As long a rest as the work took: others have the database, too.
            self._is_over.wait(time.monotonic() - step_at)
        stats.seconds = time.monotonic() - began_at
        self._tell(stats)
        return stats

    def _keep_running(self) -> None:
        while not self._is_over.is_set():
            try:
                is_behind = self.run_once().is_behind
            except SQLAlchemyError as error:
                _log.warning("retention_interrupted", error=type(error).__name__)
                is_behind = False
            self._is_over.wait(self._run_seconds if is_behind else self._period_seconds)

    def _tell(self, stats: RetentionStats) -> None:
        if stats.groups or stats.events or stats.is_behind:
            _log.info(
                "groups_dropped",
                groups=stats.groups,
                keys=stats.keys,
                events_of_no_group=stats.events,
                seconds=round(stats.seconds, 3),
                is_behind=stats.is_behind,
            )
        try:
            add_retention_stats(self._client, stats)
            reach("ticker.retention-counted")
        except redis.RedisError as error:
            _log.debug("retention_stats_dropped", error=type(error).__name__)
