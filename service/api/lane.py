"""Submits that come at the same time are written together.

A transaction costs the same round trips, commit and wake-up for one group as for many. While one is under
way, those who come wait; the next one takes them all. Alone, a submit waits for nobody.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from litestar.concurrency import sync_to_thread

from service.api.handler_threads import IN_USE, PATIENCE_SECONDS
from service.domain.errors import StoreUnavailable
from service.operations.submission import Outcome, Submission, Submitted
from service.operations.transactions import may_go_better_apart

#: As many as take a few milliseconds of one thread.
MOST_TOGETHER = 64

#: The submission, who is told, and until when it may wait for its turn.
_Waiting = tuple[Submission, "asyncio.Future[Submitted]", float]


class Commit(Protocol):
    """Writes submissions in one transaction; is called in a thread."""

    def __call__(self, submissions: Sequence[Submission], /, *, is_patient: bool) -> list[Outcome]: ...


class SubmitLane:
    """Of one API process, used from its event loop only. `ring` is called when groups have come to be."""

    def __init__(self, commit: Commit, *, ring: Callable[[], None]) -> None:
        self._commit = commit
        self._ring = ring
        self._waiting: deque[_Waiting] = deque()
        self._running: asyncio.Task[None] | None = None
        self._apart: set[asyncio.Task[None]] = set()
        #: Its log lines belong to no request.
        self._context = contextvars.copy_context()

    async def submit(self, submission: Submission) -> Submitted:
        """Raises what refuses it. An error of the database may be told to several; if it is that of a
        commit, it is not known of any of them whether it was made, and none is tried again."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Submitted] = loop.create_future()
        self._waiting.append((submission, future, loop.time() + PATIENCE_SECONDS))
        if self._running is None:
            self._running = asyncio.create_task(self._run(), context=self._context.copy())
        return await future

    async def _run(self) -> None:
        try:
            while together := self._next():
                await self._write(together)
        finally:
            self._running = None

    def _next(self) -> list[_Waiting]:
        """Those whose turn it is. Whoever has waited for long is refused: those before it waited for
        PostgreSQL, and it would wait as long again."""
        now = asyncio.get_running_loop().time()
        while self._waiting and self._waiting[0][2] < now:
            _, future, _ = self._waiting.popleft()
            _tell(future, StoreUnavailable(IN_USE))
        return [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_TOGETHER))]

    async def _write(self, together: Sequence[_Waiting], *, is_apart: bool = False) -> None:
        """In the lane also one alone waits for a lock only briefly: those who come wait behind it."""
        submissions = [submission for submission, _, _ in together]
        try:
            outcomes: Sequence[Outcome | Exception] = await sync_to_thread(
                self._commit, submissions, is_patient=is_apart
            )
        except Exception as error:  # noqa: BLE001 (it is told to those who asked)
            if not is_apart and may_go_better_apart(error):
                for each in together:
                    self._write_apart(each)
                return
            outcomes = [error] * len(together)
        if any(isinstance(outcome, Submitted) and not outcome.is_repeated for outcome in outcomes):
            self._ring()
        for (_, future, _), outcome in zip(together, outcomes, strict=True):
            _tell(future, outcome)

    def _write_apart(self, each: _Waiting) -> None:
        """One may wait for a lock that somebody else has; the lane goes on without it."""
        task = asyncio.create_task(self._write([each], is_apart=True), context=self._context.copy())
        self._apart.add(task)
        task.add_done_callback(self._apart.discard)


def _tell(future: asyncio.Future[Submitted], outcome: Outcome | Exception) -> None:
    if future.done():  # who asked has left
        return
    if isinstance(outcome, Submitted):
        future.set_result(outcome)
    else:
        future.set_exception(outcome)
