"""A line to a store that a test can listen to, hold, and cut, at exactly the message it names."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from sqlalchemy import make_url

POSTGRES_SOCKET = ".s.PGSQL.5432"


@dataclass(eq=False)
class Talk:
    """One connection, and the message of the client that is on its way."""

    client: socket.socket
    server: socket.socket
    message: bytes = b""
    awaited: list[Callable[[Talk], None]] = field(default_factory=list)
    is_cut: bool = False
    unread: bytearray = field(default_factory=bytearray)
    is_answered: bool = True

    def send_half(self) -> None:
        """The server hears the first half of the message now, and the rest when whoever calls returns."""
        half = len(self.message) // 2
        _send(self.server, self.message[:half])
        self.message = self.message[half:]

    def cut(self) -> None:
        """The client finds its connection closed; so does the server."""
        self.is_cut = True
        _end(self.client)
        _end(self.server)


#: Called with the connection that said it. It may block: then the message waits as long.
Act = Callable[[Talk], None]


@dataclass(frozen=True)
class _Watch:
    word: bytes
    act: Act
    is_after: bool


class Line:
    """Forwards the unix socket `at` to the server's `target`.

    `before(word, act)`: when a client says `word`, before the server hears it. `after(word, act)`: when
    the server has answered it, before the client hears the answer. A message is what one read gives.
    """

    def __init__(self, target: Path, at: Path) -> None:
        #: How often a client has waited for an answer, over all connections.
        self.round_trips = 0
        self._target = target
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(at))
        self._listener.listen(64)
        self._watches: list[_Watch] = []
        self._talks: list[Talk] = []
        self._threads: list[threading.Thread] = []

    def questions(self, talk: Talk, _data: bytes) -> int:
        """How many times the client now waits for an answer: once, if it speaks after an answer."""
        is_question, talk.is_answered = talk.is_answered, False
        return int(is_question)

    def before(self, word: bytes, act: Act) -> None:
        self._watches.append(_Watch(word, act, is_after=False))

    def after(self, word: bytes, act: Act) -> None:
        self._watches.append(_Watch(word, act, is_after=True))

    def heal(self) -> None:
        """Watch for nothing any more."""
        self._watches.clear()

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heal()
        _end(self._listener)
        for talk in self._talks:
            talk.cut()
        for thread in self._threads:
            thread.join(10)
        for end in (self._listener, *(end for talk in self._talks for end in (talk.client, talk.server))):
            end.close()

    def _start(self, target: Callable[..., None], *args: Talk) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(str(self._target))
            except OSError:
                client.close()  # as if nobody listened
                continue
            talk = Talk(client, server)
            self._talks.append(talk)
            self._start(self._up, talk)
            self._start(self._down, talk)

    def _up(self, talk: Talk) -> None:
        while data := _receive(talk.client):
            self.round_trips += self.questions(talk, data)
            talk.message = data
            for watch in [watch for watch in self._watches if watch.word in data]:
                if watch.is_after:
                    talk.awaited.append(watch.act)
                else:
                    watch.act(talk)
            if talk.is_cut or not _send(talk.server, talk.message):
                break
        _end(talk.server)

    def _down(self, talk: Talk) -> None:
        while data := _receive(talk.server):
            talk.is_answered = True
            while talk.awaited:
                talk.awaited.pop()(talk)
            if talk.is_cut or not _send(talk.client, data):
                break
        _end(talk.client)


def once(act: Act) -> Act:
    """Only the first time."""
    is_new = threading.Semaphore(1)

    def first(talk: Talk) -> None:
        if is_new.acquire(blocking=False):
            act(talk)

    return first


class CutAt:
    """Cuts the connection on which the message of this number is said, counted over all connections."""

    def __init__(self, number: int) -> None:
        self.has_cut = False
        self._number = number
        self._said = itertools.count(1)

    def __call__(self, talk: Talk) -> None:
        if next(self._said) == self._number:
            self.has_cut = True
            talk.cut()


class PostgresLine(Line):
    """`url` leads through it to the database of `database_url`."""

    def __init__(self, database_url: str, folder: Path) -> None:
        url = make_url(database_url)
        host = url.query["host"]
        assert isinstance(host, str)
        super().__init__(Path(host) / POSTGRES_SOCKET, folder / POSTGRES_SOCKET)
        self.url = url.update_query_dict({"host": str(folder)}).render_as_string(hide_password=False)

    def questions(self, talk: Talk, data: bytes) -> int:
        """What is sent in a pipeline is answered at its end: a question ends with Sync, or is a Query."""
        talk.unread += data
        asked, unread = 0, talk.unread
        while len(unread) >= 5:
            # The first message of a connection has no type.
            is_first = unread[0] == 0
            size = int.from_bytes(unread[:4] if is_first else unread[1:5]) + (0 if is_first else 1)
            if len(unread) < size:
                break
            asked += unread[0] in b"SQ"
            del unread[:size]
        return asked


class RedisLine(Line):
    """`url` leads through it to the server that listens on `socket_path`."""

    def __init__(self, socket_path: Path, folder: Path) -> None:
        at = folder / "line.sock"
        super().__init__(socket_path, at)
        self.url = f"unix://{quote(str(at))}?db=0"


def _receive(end: socket.socket) -> bytes:
    try:
        return end.recv(65536)
    except OSError:
        return b""


def _send(end: socket.socket, data: bytes) -> bool:
    try:
        end.sendall(data)
    except OSError:
        return False
    return True


def _end(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
