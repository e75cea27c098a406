"""Is it ready? Asked in threads of its own: those of the handlers may all be waiting for a store."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from redis import Redis

from service.domain.errors import StoreUnavailable
from service.operations import health
from service.store.pulse import Pulse

_THREADS = 4
_ANSWER_SECONDS = 2.0


class Readiness:
    """Answers within two seconds, however many ask."""

    def __init__(self, pulse: Pulse, redis: Redis) -> None:
        self._pulse = pulse
        self._redis = redis
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="readiness")

    async def check(self) -> None:
        """Raises StoreUnavailable or InventoryUnavailable."""
        checking = asyncio.get_running_loop().run_in_executor(
            self._threads, health.check, self._pulse, self._redis
        )
        try:
            await asyncio.wait_for(checking, _ANSWER_SECONDS)
        except TimeoutError:
            raise StoreUnavailable("The stores do not answer in time.") from None

    def close(self) -> None:
        self._threads.shutdown(wait=False)
