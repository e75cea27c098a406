"""What a connection may cost: uvicorn bounds neither the time of a request's head and body, nor their
sizes, nor how long an answer lies unread.

A client that stalls, that sends a head without end or that does not read costs a socket until its time is
over, and never a thread: handlers are called with whole requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

import structlog
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from service.api.lingering import LingeringTransport
from service.api.problems import BAD_REQUEST, BODIES, HEAD_TOO_LARGE, MEDIA_TYPE, TOO_SLOW, Kind, document
from service.api.refusals import Refusals, Refused

#: The names and values of a request's head together.
MOST_HEAD_BYTES = 64 * 1024
MOST_HEADERS = 100
_SWEEP_SECONDS = 0.5
#: Of a body that nobody needs any more.
_MOST_DROPPED_BYTES = 64 * 1024

_log = structlog.get_logger("muster.api")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Of one process. `body_bytes`: of all requests that are being served."""

    head_seconds: float
    body_seconds: float
    unread_seconds: float
    connections: int
    body_bytes: int


class Owed(Enum):
    """What a client has begun and not sent yet; a connection that was just made owes a head."""

    NOTHING = 0
    HEAD = 1
    BODY = 2


class Watch:
    """All connections of a process. Looks at them twice a second; lives in the event loop."""

    def __init__(self, bounds: Bounds, refusals: Refusals) -> None:
        self.bounds = bounds
        self.refusals = refusals
        self.body_bytes = 0
        #: In the order in which they were made, or last answered.
        self._open: dict[BoundedProtocol, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, protocol: BoundedProtocol) -> None:
        """One more. If they are too many, the one that has kept us waiting for longest goes."""
        if len(self._open) >= self.bounds.connections:
            idle = next((each for each in self._open if each.is_idle), protocol)
            idle.drop(Refused.CONNECTIONS)
        self._open[protocol] = None
        if self._timer is None:
            self._timer = protocol.loop.call_later(_SWEEP_SECONDS, self._sweep, protocol.loop)

    def rest(self, protocol: BoundedProtocol) -> None:
        """It was answered: nobody has kept us waiting for less."""
        if self._open.pop(protocol, protocol) is None:
            self._open[protocol] = None

    def end(self, protocol: BoundedProtocol) -> None:
        self._open.pop(protocol, None)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(_SWEEP_SECONDS, self._sweep, loop) if self._open else None
        now = loop.time()
        for protocol in list(self._open):
            protocol.look(now)


class BoundedProtocol(HttpToolsProtocol):
    """One connection that keeps the bounds of its watch."""

    def __init__(self, *arguments: Any, watch: Watch, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._watch = watch
        self._owed = Owed.HEAD
        self._owed_since = self.loop.time()
        self._head_bytes = 0
        self._body_bytes = 0
        self._dropped_bytes = 0
        #: Requests that may not have been answered yet.
        self._under_way: list[RequestResponseCycle] = []
        #: What came behind the last request is not HTTP, and so is what comes.
        self._is_garbled = False
        self._unsent = 0
        self._unsent_since = 0.0

    @property
    def is_idle(self) -> bool:
        """Nothing is being served or received but, perhaps, a head."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    @property
    def _is_sending(self) -> bool:
        """Whether more may lie unread, or come."""
        is_in_head = self._owed is Owed.HEAD and self._head_bytes > 0
        return is_in_head or self._owed is Owed.BODY or self._is_garbled or self.flow.read_paused

    # ------------------------------------------------------------ what the server tells
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._lingering = LingeringTransport(transport, self.loop, lambda: self._is_sending)
        super().connection_made(cast("asyncio.Transport", self._lingering))
        self._watch.begin(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._watch.end(self)
        self._forget_body()
        super().connection_lost(exc)
        self._lingering.end()
        self._under_way.clear()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing() or self._is_garbled:
            return
        if self._owed is Owed.NOTHING and self.is_idle:
            self._expect(Owed.HEAD)
        self._head_bytes += len(data)
        super().data_received(data)
        if self._owed is Owed.HEAD and self._head_bytes > MOST_HEAD_BYTES:
            self._refuse(HEAD_TOO_LARGE, Refused.LARGE_HEAD)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._owed is not Owed.HEAD:
            self._expect(Owed.HEAD)

    def on_headers_complete(self) -> None:
        if self.transport.is_closing():
            return  # the rest of what came at once with what was refused
        if len(self.headers) > MOST_HEADERS:
            self._refuse(HEAD_TOO_LARGE, Refused.LARGE_HEAD)
            return
        self._expect(Owed.BODY)
        super().on_headers_complete()
        unanswered = [cycle for cycle in self._under_way if not cycle.response_complete]
        self._under_way = [*unanswered, self.cycle]

    def on_body(self, body: bytes) -> None:
        if self.transport.is_closing():
            return
        if self.cycle.response_complete:
            self._drop_body(body)
            return
        self._body_bytes += len(body)
        self._watch.body_bytes += len(body)
        super().on_body(body)
        if self._watch.body_bytes > self._watch.bounds.body_bytes:
            self._refuse(BODIES, Refused.BODIES)

    def on_message_complete(self) -> None:
        if self.transport.is_closing():
            return
        self._owed = Owed.NOTHING
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._forget_body()
        self._watch.rest(self)
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """What comes is not HTTP. An answer that is under way comes first, lest it be taken for that of
        something else."""
        if self.transport.is_closing():
            return
        if not self.is_idle and not self.cycle.more_body:
            self.cycle.keep_alive = False
            self._is_garbled = True
        else:
            self._close_with(BAD_REQUEST, msg)

    def shutdown(self) -> None:
        """The process stops: half a head gets no answer. Half a body may still become a whole one."""
        if self.is_idle:
            self._owed = Owed.NOTHING
        super().shutdown()

    # ------------------------------------------------------------ bounds
    def look(self, now: float) -> None:
        """Give up what has taken too long."""
        self._look_at_unsent(now)
        if self._owed is Owed.NOTHING:
            return
        if self.flow.read_paused or (self._owed is Owed.HEAD and not self.is_idle):
            self._owed_since = now  # it is we who do not read, or have not answered what came before
            return
        waited = now - self._owed_since
        if self._owed is Owed.BODY and waited > self._watch.bounds.body_seconds:
            self._refuse(TOO_SLOW, Refused.SLOW_BODY)
        elif self._owed is Owed.HEAD and waited > self._watch.bounds.head_seconds:
            if self._head_bytes:
                self._refuse(TOO_SLOW, Refused.SLOW_HEAD)
            else:
                self.drop(Refused.SLOW_HEAD)

    def drop(self, reason: Refused) -> None:
        """End the connection without a word."""
        self._watch.refusals.count(reason)
        self.transport.abort()

    def _look_at_unsent(self, now: float) -> None:
        unsent = self.transport.get_write_buffer_size()
        if unsent == 0 or unsent != self._unsent:
            self._unsent, self._unsent_since = unsent, now
        elif now - self._unsent_since > self._watch.bounds.unread_seconds:
            self.drop(Refused.UNREAD_ANSWER)

    def _refuse(self, kind: Kind, reason: Refused) -> None:
        """Answer in place of the application, if it has not begun to, and close. Behind a request that is
        not answered yet without a word, lest it be taken for its answer."""
        if self.transport.is_closing():
            return
        self._watch.refusals.count(reason)
        _log.info("connection_given_up", reason=reason.value)
        self._close_with(kind, kind.title + ".")

    def _close_with(self, kind: Kind, detail: str) -> None:
        is_next = self.is_idle if self._owed is Owed.HEAD else not self.cycle.response_started
        is_free = is_next and not self.pipeline
        for cycle in self._under_way:
            # The application learns that nobody waits for it any more.
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self._forget_body()
        if is_free:
            self.transport.write(b"".join(_answer(kind, detail)))
        self.transport.close()

    def _expect(self, owed: Owed) -> None:
        self._owed, self._owed_since, self._head_bytes = owed, self.loop.time(), 0
        self._dropped_bytes = 0

    def _drop_body(self, body: bytes) -> None:
        """Of a request that was answered before it was read. A little more is taken, so that the connection
        can be used again; whoever sends on as if nothing had been said is cut off."""
        self._dropped_bytes += len(body)
        if self._dropped_bytes > _MOST_DROPPED_BYTES:
            self.transport.close()

    def _forget_body(self) -> None:
        self._watch.body_bytes -= self._body_bytes
        self._body_bytes = 0


def _answer(kind: Kind, detail: str) -> Iterator[bytes]:
    body = document(kind, detail)
    yield STATUS_LINE[kind.status]
    yield f"content-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n".encode()
    if kind.status == 429:
        yield b"retry-after: 1\r\n"
    yield b"connection: close\r\n\r\n"
    yield body
