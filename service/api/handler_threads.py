"""The threads in which plain-function handlers run, as many as there are connections to PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from service.domain.errors import StoreUnavailable

P = ParamSpec("P")
T = TypeVar("T")

#: As long as one may wait for a connection of the pool.
PATIENCE_SECONDS = 5.0
IN_USE = "Every connection to PostgreSQL is in use. Try again."


class HandlerThreads(ThreadPoolExecutor):
    """What has waited in vain for a thread is refused once one is free, without a try: when all of them
    wait for PostgreSQL, those that came later would wait for the sum of those before them."""

    def __init__(self, count: int) -> None:
        super().__init__(count, thread_name_prefix="handler")

    def submit(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """The call's future; it may raise StoreUnavailable."""
        ends_at = time.monotonic() + PATIENCE_SECONDS

        def in_time() -> T:
            if time.monotonic() > ends_at:
                raise StoreUnavailable(IN_USE)
            return call(*args, **kwargs)

        return super().submit(in_time)
