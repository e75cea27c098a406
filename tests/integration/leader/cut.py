"""A line to PostgreSQL that can be cut when the client says COMMIT."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy import make_url

_SOCKET = ".s.PGSQL.5432"


class Line:
    """Forwards a unix socket to the server's. While `cuts_commits`, a COMMIT still reaches the
    server, but the client's connection ends: with `waits`, only once the server has answered."""

    def __init__(self, database_url: str, folder: Path) -> None:
        url = make_url(database_url)
        host = url.query["host"]
        assert isinstance(host, str)
        self._target = str(Path(host) / _SOCKET)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / _SOCKET))
        self._listener.listen()
        self.url = url.update_query_dict({"host": str(folder)}).render_as_string(hide_password=False)
        self.cuts_commits = False
        self.waits = True
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _end(self._listener)
        for end in self._sockets:
            _end(end)
        for thread in self._threads:
            thread.join(10)
        for end in (self._listener, *self._sockets):
            end.close()

    def _start(self, target: Callable[..., None], *args: socket.socket) -> None:
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
            server.connect(self._target)
            self._sockets += [client, server]
            self._start(self._up, client, server)
            self._start(self._down, server, client)

    def _up(self, client: socket.socket, server: socket.socket) -> None:
        while data := _receive(client):
            is_cut = self.cuts_commits and b"COMMIT" in data
            if is_cut and not self.waits:
                _end(client)
            if not _send(server, data):
                break
        if not self.cuts_commits:
            _end(server)

    def _down(self, server: socket.socket, client: socket.socket) -> None:
        while data := _receive(server):
            if self.cuts_commits and b"COMMIT" in data:
                break
            if not _send(client, data):
                break
        _end(client)


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
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
