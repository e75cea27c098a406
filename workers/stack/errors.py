"""Why a stack does not start. Each message says what to do."""

from __future__ import annotations

from pathlib import Path


class StackFailed(Exception):
    """A part of the stack did not start or did not answer."""


class AlreadyRunning(StackFailed):
    """Another process runs a stack on this data folder."""

    def __init__(self, data: Path, pid: int | None) -> None:
        who = f" (pid {pid})" if pid else ""
        super().__init__(
            f"Muster is already running on {data}{who}; stop it with `muster down --data {data}`"
        )
        self.pid = pid


class PortTaken(StackFailed):
    """Somebody else listens on the port of the API."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(
            f"port {port} on {host} is taken by another program; choose one with `muster up --port NUMBER`"
        )


class NodesWrong(StackFailed):
    """The declared nodes cannot be understood."""


class SettingsWrong(StackFailed):
    """A variable of the environment or an option would be refused by every process."""


class DataFolderUnusable(StackFailed):
    """The data folder cannot be made, entered or written to."""
