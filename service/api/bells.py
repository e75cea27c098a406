"""Wake-ups after a commit: of the admission cycle and of dispatchers.

A request only marks what has to be rung; one thread rings, at most once every few milliseconds, so
a thousand submits make a handful of cycles. With Redis away the wake-up is dropped and logged: the
ticker wakes the cycle and dispatchers look by themselves, so it costs one tick, never a group.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

import structlog
from redis import Redis, RedisError

from service import jobs
from service.points import reach

#: The least time between two rings.
PAUSE_SECONDS = 0.003

_log = structlog.get_logger("muster.api")


class Bells:
    """`wake_cycles` and `ring_dispatchers` return at once and may be called from any thread."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._lock = threading.Lock()
        self._marked = threading.Event()
        self._stopping = threading.Event()
        self._wakes_cycles = False
        self._pools: set[int] = set()
        self._thread: threading.Thread | None = None

    def wake_cycles(self) -> None:
        with self._lock:
            self._wakes_cycles = True
        self._marked.set()

    def ring_dispatchers(self, pool_ids: Iterable[int]) -> None:
        with self._lock:
            self._pools.update(pool_ids)
        self._marked.set()

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="bells", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ring what is marked and end the thread."""
        self._stopping.set()
        self._marked.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._marked.wait()
            self._marked.clear()
            self._ring()
            self._stopping.wait(PAUSE_SECONDS)
        self._ring()

    def _ring(self) -> None:
        with self._lock:
            wakes_cycles, pools = self._wakes_cycles, self._pools
            self._wakes_cycles, self._pools = False, set()
        if not wakes_cycles and not pools:
            return
        try:
            if wakes_cycles:
                jobs.wake_cycles(self._redis)
                reach("api.cycle-woken")
            if pools:
                jobs.ring_all_dispatchers(self._redis, sorted(pools))
                reach("api.dispatchers-rung")
        except RedisError as error:
            _log.warning("wake_up_dropped", error=type(error).__name__)
