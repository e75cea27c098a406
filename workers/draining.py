"""Queues that are to go, in the ticker's process: a thread that empties them, step by step."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import psycopg
import redis
import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from service import jobs
from service.clock import Clock
from service.operations.delete_queue import Progress, empty_queues
from service.points import reach

_log = structlog.get_logger(__name__)

_PERIOD_SECONDS = 1.0


class Draining:
    """Several may run at once: each step looks again at what it finds. A store that is away costs nothing
    but time, and so does whoever is killed: what is left is found again."""

    def __init__(self, engine: Engine, client: redis.Redis, *, clock: Clock) -> None:
        self._engine = engine
        self._client = client
        self._clock = clock
        self._known: dict[int, Progress] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._keep_draining, name="draining", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it, a step at the most."""
        self._is_over.set()
        self._thread.join()

    def _keep_draining(self) -> None:
        while not self._is_over.is_set():
            began_at = time.monotonic()
            self._drain()
            # Where more is left, as long a rest as the work took: others have the database, too.
            has_more = any(each.passed_id is not None for each in self._known.values())
            self._is_over.wait(time.monotonic() - began_at if has_more else _PERIOD_SECONDS)

    def _drain(self) -> None:
        """One step, and where it has come to."""
        known, self._known = self._known, {}
        try:
            done = empty_queues(self._engine, known=known, now=self._clock.now())
        except (SQLAlchemyError, psycopg.Error) as error:
            _log.warning("draining_interrupted", error=type(error).__name__)
            return
        self._known = {each.queue_id: each.progress for each in done}
        if any(each.has_changed for each in done):
            reach("ticker.queue-emptied")
            # A ring that is lost costs one tick, like any other.
            with suppress(redis.RedisError):
                jobs.wake_cycles(self._client)
                reach("ticker.cycle-woken")
