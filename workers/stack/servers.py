"""The embedded servers as parts of a stack."""

from __future__ import annotations

from pathlib import Path

from workers.embedded import record
from workers.embedded.child import ServerFailed, ServerInUse
from workers.embedded.folders import FolderUnusable
from workers.embedded.postgres import PostgresServer
from workers.embedded.program import ProgramMissing
from workers.embedded.valkey import ValkeyServer
from workers.stack.errors import StackFailed

_FAULTS = (ServerFailed, ServerInUse, FolderUnusable, ProgramMissing, OSError)


class ServerPart:
    """A server that is started anew on the same folder and the same socket whenever it died."""

    def __init__(
        self, name: str, kind: type[PostgresServer] | type[ValkeyServer], *, data: Path, sockets: Path
    ) -> None:
        self.name = name
        self.log = data / "server.log"
        self._kind = kind
        self._data = data
        self._sockets = sockets
        self._server: PostgresServer | ValkeyServer | None = None

    @property
    def pid(self) -> int | None:
        return self._server.pid if self._server else None

    @property
    def url(self) -> str:
        if self._server is None:
            raise StackFailed(f"{self.name} is not started")
        return self._server.url

    @property
    def is_running(self) -> bool:
        return self._server is not None and self._server.is_running

    def start(self) -> None:
        """Start the server and wait until it answers. Raises StackFailed."""
        try:
            self._server = self._kind.start(self._data, socket_dir=self._sockets)
        except _FAULTS as error:
            raise StackFailed(str(error)) from error

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()

    def end_leftover(self) -> bool:
        return record.end_leftover(self._data)

    def last_words(self) -> str:
        code = self._server.process.poll() if self._server else None
        return f"ended with {code}"
