"""Closing a connection whose client is still sending.

A socket that is closed with unread bytes resets the connection, and the client loses the answer that says
why it was refused. So what still comes is read and thrown away for a moment first, as RFC 9112 (9.6) asks
and nginx calls lingering close.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

#: From the answer's last byte that is written, sent or not, until the connection ends.
_LINGER_SECONDS = 2.0


class LingeringTransport:
    """An `asyncio.Transport` for whoever only asks what is named here.

    `is_owed` says whether the client has begun what it has not sent to its end. What is received while this
    `is_closing` is to be ignored, and nothing may be written then.
    """

    __slots__ = (
        "_is_owed",
        "_lingers_until",
        "_loop",
        "_transport",
        "abort",
        "get_extra_info",
        "get_write_buffer_size",
        "resume_reading",
        "set_protocol",
        "write",
    )

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, is_owed: Callable[[], bool]
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._is_owed: Callable[[], bool] | None = is_owed
        self._lingers_until: asyncio.TimerHandle | None = None
        # As they are: a call in between would cost each answer.
        self.write = transport.write
        self.abort = transport.abort
        self.resume_reading = transport.resume_reading
        self.set_protocol = transport.set_protocol
        self.get_extra_info = transport.get_extra_info
        self.get_write_buffer_size = transport.get_write_buffer_size

    def is_closing(self) -> bool:
        return self._lingers_until is not None or self._transport.is_closing()

    def pause_reading(self) -> None:
        if not self.is_closing():
            self._transport.pause_reading()

    def close(self) -> None:
        """Nothing more is written. The client may take the answer while it still sends."""
        if self.is_closing():
            return
        if self._is_owed is None or not self._is_owed():
            self._transport.close()
            return
        self._lingers_until = self._loop.call_later(_LINGER_SECONDS, self._transport.close)
        # It may have been reset, which nobody has told us yet.
        with suppress(OSError):
            self._transport.write_eof()
        self._transport.resume_reading()

    def end(self) -> None:
        """The connection is lost: nothing refers to it any more."""
        self._is_owed = None
        if self._lingers_until is not None:
            self._lingers_until.cancel()
