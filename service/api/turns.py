"""Work that takes the whole of a core for a while: of one process, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from service.api.problems import TooManyRequests


class Turns:
    """Used from an event loop only. Whoever finds `most` that wait is refused."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._waiting = 0
        self._free = asyncio.Semaphore(1)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Raises TooManyRequests."""
        if self._waiting >= self._most:
            raise TooManyRequests(f"{self._most} requests of this kind wait for their turn. Try again.")
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._free.release()
