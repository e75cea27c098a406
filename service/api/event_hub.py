"""Event streams: one reader for all of them in a process, whatever their number.

While somebody listens, one task looks a few times a second for what has come since its last look, in
the way of the leader's feed (W1): nothing that began early and committed late is missed. A look that finds
nothing is one short statement; one that finds something is three, for all streams together.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar
from weakref import WeakSet

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from service.api.event_reader import EventReader, Found
from service.api.problems import TooManyRequests
from service.api.refusals import Refusals, Refused
from service.store.event_reads import EventRow

T = TypeVar("T")

PAUSE_SECONDS = 0.2
#: So many events are kept for a listener that does not take them. What comes after is read again when it
#: has: a slow reader costs this much memory and nothing else.
MOST_BEHIND = 200
_CATCH_UP_SECONDS = 0.01
_RETRY_SECONDS = 1.0

_log = structlog.get_logger("muster.api")


@dataclass(eq=False, slots=True, weakref_slot=True)
class Listener:
    """One stream. `last_id` is the highest id that it was given. Until it is caught up, and again when it
    has fallen behind, it reads in pages; otherwise it is given what is new."""

    group_id: int
    last_id: int
    owner: Hashable = None
    #: Wants to know that something came, not what.
    is_bell: bool = False
    is_caught_up: bool = False
    is_last: bool = False
    events: list[EventRow] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self) -> tuple[EventRow, ...]:
        """What has come, to be told now."""
        events, self.events = tuple(self.events), []
        if not self.is_last:
            self.news.clear()
        return events

    def give(self, events: Sequence[EventRow], *, is_last: bool, most: int) -> None:
        """Keep what has come, or nothing of it: then it is behind."""
        if self.is_bell:
            self.last_id = max([self.last_id, *(event.id for event in events)])
            self.events = self.events or list(events[-1:])
        elif len(self.events) + len(events) > most:
            self.is_caught_up = False
            return
        else:
            self.events += events
            self.last_id = max([self.last_id, *(event.id for event in events)])
        self.is_last = is_last
        if self.events or is_last:
            self.news.set()


class CutOff(Exception):
    """A listener is not told more, though more may come: the process stops."""


class EventHub:
    """Lives in the event loop of the API process; `end_streams` and `close` end every stream."""

    def __init__(
        self,
        engine: Engine,
        refusals: Refusals,
        *,
        most: int,
        most_each: int | None = None,
        most_behind: int = MOST_BEHIND,
    ) -> None:
        self._reader = EventReader(engine, page=most_behind)
        self._refusals = refusals
        self._most = most
        self._most_each = most if most_each is None else most_each
        self._most_behind = most_behind
        # Weak: an answer that was never begun, its client being gone, gives its place back.
        self._listeners: WeakSet[Listener] = WeakSet()
        # A thread of its own: those of the handlers may all be busy.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="event-hub")
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def count(self) -> int:
        """The streams that are open now."""
        return len(self._listeners)

    def join(self, group_id: int, *, after: int, owner: Hashable = None, is_bell: bool = False) -> Listener:
        """A place for one stream of what happens to a group from event `after` on, held as long as the
        listener is. Raises TooManyRequests when the process serves as many as it may, to all or to one
        owner."""
        if self._is_closed or len(self._listeners) >= self._most:
            self._refuse(f"This server serves {self._most} streams at most. Try again later.")
        if sum(each.owner == owner for each in self._listeners) >= self._most_each:
            self._refuse(f"This server serves {self._most_each} streams to one user at most.")
        listener = Listener(group_id, after, owner=owner, is_bell=is_bell)
        self._listeners.add(listener)
        return listener

    async def listen(
        self, listener: Listener, *, patience: float
    ) -> AsyncGenerator[tuple[EventRow, ...] | None]:
        """What comes; None when nothing came for `patience` seconds. Ends behind the group's last event,
        else raises CutOff."""
        self._start()
        loop = asyncio.get_running_loop()
        try:
            while not self._is_closed:
                # Cheaper than a task with a timeout, which hundreds of streams would make all the time.
                timer = loop.call_later(patience, listener.news.set)
                try:
                    await listener.news.wait()
                finally:
                    timer.cancel()
                events = listener.take()
                if events:
                    yield events
                elif not listener.is_last and not self._is_closed:
                    yield None
                if listener.is_last and not listener.events:
                    return
            raise CutOff
        finally:
            self._listeners.discard(listener)

    def end_streams(self) -> None:
        """End every stream that is open, now; no other begins."""
        self._is_closed = True
        for listener in self._listeners:
            listener.news.set()

    async def close(self) -> None:
        self.end_streams()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._in_thread(self._reader.drop_connection)
        self._thread.shutdown(wait=False)

    def _refuse(self, message: str) -> NoReturn:
        self._refusals.count(Refused.STREAMS)
        raise TooManyRequests(message)

    def _start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="event-hub")

    async def _run(self) -> None:
        while self._listeners:
            is_more = await self._look_once()
            await asyncio.sleep(_CATCH_UP_SECONDS if is_more else PAUSE_SECONDS)
            if not self._listeners:
                await self._in_thread(self._reader.drop_connection)

    async def _look_once(self) -> bool:
        """Whether a reader that has taken all that it was given is behind still."""
        listeners = list(self._listeners)
        if not self._reader.is_following:
            for each in listeners:
                each.is_caught_up = False
        following = [each for each in listeners if each.is_caught_up]
        # A page fills what a listener may keep, so it is read when that is empty.
        behind = [each for each in listeners if not each.is_caught_up and not each.events]
        try:
            found = await self._in_thread(
                self._reader.look,
                {each.group_id for each in following},
                {(each.group_id, each.last_id) for each in behind},
            )
        except SQLAlchemyError as error:
            _log.warning("event_streams_wait", error=type(error).__name__)
            await self._in_thread(self._reader.drop_connection)
            await asyncio.sleep(_RETRY_SECONDS)
            return False
        self._give(following, behind, found)
        return not all(each.is_caught_up for each in behind)

    def _give(self, following: Sequence[Listener], behind: Sequence[Listener], found: Found) -> None:
        for listener in following if found.new else ():
            if events := found.new.get(listener.group_id):
                is_last = listener.group_id in found.ended
                listener.give(events, is_last=is_last, most=self._most_behind)
        for listener in behind:
            events = found.pages.get((listener.group_id, listener.last_id), ())
            listener.is_caught_up = len(events) < self._most_behind
            is_last = listener.is_caught_up and listener.group_id in found.ended
            listener.give(events, is_last=is_last, most=self._most_behind)

    async def _in_thread(self, call: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)
