"""Event streams: one reader for all of them in a process, whatever their number.

While somebody listens, one task looks a few times a second for what has come since its last look, in
the way of the leader's feed (W1): nothing that began early and committed late is missed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass, field, replace
from weakref import WeakSet

import structlog
from litestar.concurrency import sync_to_thread
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from service.api.problems import TooManyRequests
from service.store.event_reads import (
    EventRow,
    SeenSnapshot,
    list_ended_groups,
    list_events,
    list_new_events,
    read_snapshot,
)

PAUSE_SECONDS = 0.2
#: A listener with so many events behind is cut off; it comes again with the last id that it has seen.
MOST_BEHIND = 10_000
_PAGE = 1_000
_RETRY_SECONDS = 1.0

_log = structlog.get_logger("muster.api")


@dataclass(frozen=True, slots=True)
class News:
    """What a look brought for one listener. `is_last`: nothing will come after it."""

    events: tuple[EventRow, ...]
    is_last: bool = False
    is_caught_up: bool = True


@dataclass(eq=False, slots=True, weakref_slot=True)
class Listener:
    """One stream. `last_id` is the highest id that it was given; until it is caught up it reads in
    pages, from there on it is given what is new."""

    group_id: int
    last_id: int
    #: Wants to know that something came, not what.
    is_bell: bool = False
    is_caught_up: bool = False
    news: asyncio.Queue[News] = field(default_factory=asyncio.Queue)
    behind: int = 0

    def take(self, news: News) -> None:
        self.last_id = max([self.last_id, *(event.id for event in news.events)])
        if self.is_bell:
            if self.behind and not news.is_last:
                return
            news = replace(news, events=news.events[-1:])
        self.behind += len(news.events)
        self.news.put_nowait(news)


class CutOff(Exception):
    """A listener is not told more, though more may come: it fell behind, or the process stops."""


class EventHub:
    """Lives in the event loop of the API process; `close` ends every stream."""

    def __init__(self, engine: Engine, *, most: int, most_behind: int = MOST_BEHIND) -> None:
        self._engine = engine
        self._most = most
        self._most_behind = most_behind
        # Weak: an answer that was never begun, its client being gone, gives its place back.
        self._listeners: WeakSet[Listener] = WeakSet()
        self._task: asyncio.Task[None] | None = None
        self._conn: Connection | None = None
        self._seen: SeenSnapshot | None = None
        self._is_closed = False

    def join(self, group_id: int, *, after: int, is_bell: bool = False) -> Listener:
        """A place for one stream of what happens to a group from event `after` on, held as long as the
        listener is. Raises TooManyRequests when the process serves as many streams as it may."""
        if self._is_closed or len(self._listeners) >= self._most:
            raise TooManyRequests(f"This server serves {self._most} streams at most. Try again later.")
        listener = Listener(group_id, after, is_bell=is_bell)
        self._listeners.add(listener)
        return listener

    async def listen(
        self, listener: Listener, *, patience: float
    ) -> AsyncGenerator[tuple[EventRow, ...] | None]:
        """What comes; None when nothing came for `patience` seconds. Ends behind the group's last event,
        else raises CutOff."""
        self._start()
        try:
            while not self._is_closed and listener.behind < self._most_behind:
                try:
                    news = await asyncio.wait_for(listener.news.get(), patience)
                except TimeoutError:
                    yield None
                    continue
                if news.events:
                    listener.behind -= len(news.events)
                    yield news.events
                if news.is_last:
                    return
            raise CutOff
        finally:
            self._listeners.discard(listener)

    async def close(self) -> None:
        self._is_closed = True
        for listener in self._listeners:
            # Wakes it; it sees that the hub is closed.
            listener.news.put_nowait(News(()))
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await sync_to_thread(self._drop_connection)

    def _start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="event-hub")

    async def _run(self) -> None:
        while self._listeners:
            await self._look_once()
            await asyncio.sleep(PAUSE_SECONDS)
            if not self._listeners:
                await sync_to_thread(self._drop_connection)

    async def _look_once(self) -> None:
        try:
            found = await sync_to_thread(self._look, frozenset(self._listeners))
        except SQLAlchemyError as error:
            _log.warning("event streams wait for postgresql", error=type(error).__name__)
            await sync_to_thread(self._drop_connection)
            await asyncio.sleep(_RETRY_SECONDS)
            return
        for listener, news in found:
            listener.is_caught_up = news.is_caught_up
            if news.events or news.is_last:
                listener.take(news)

    def _look(self, listeners: Collection[Listener]) -> list[tuple[Listener, News]]:
        """One transaction, so that what is read in pages and what is read as new fit together."""
        if self._conn is None:
            # W3: a snapshot that was kept is worth nothing on another connection.
            self._conn = self._engine.connect().execution_options(isolation_level="REPEATABLE READ")
            self._seen = None
        with self._conn.begin():
            present = read_snapshot(self._conn)
            following = [each for each in listeners if each.is_caught_up and self._seen is not None]
            found = self._new(self._conn, following)
            for listener in set(listeners) - set(following):
                events = list_events(self._conn, listener.group_id, after=listener.last_id, limit=_PAGE)
                found[listener] = News(tuple(events), is_caught_up=len(events) < _PAGE)
            # A listener that has just come may have come after the end.
            asked = {
                listener.group_id
                for listener, news in found.items()
                if news.is_caught_up and (news.events or not listener.is_caught_up)
            }
            ended = list_ended_groups(self._conn, asked) if asked else frozenset()
        self._seen = present
        return [
            (listener, replace(news, is_last=news.is_caught_up and listener.group_id in ended))
            for listener, news in found.items()
        ]

    def _new(self, conn: Connection, listeners: Collection[Listener]) -> dict[Listener, News]:
        if not listeners or self._seen is None:
            return {}
        by_group: dict[int, list[EventRow]] = {}
        groups = {listener.group_id for listener in listeners}
        for event in list_new_events(conn, groups, since=self._seen):
            by_group.setdefault(event.group_id, []).append(event)
        return {listener: News(tuple(by_group.get(listener.group_id, ()))) for listener in listeners}

    def _drop_connection(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.close()
