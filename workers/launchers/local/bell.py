"""How supervisors tell launchers that something changed: datagrams, so that nobody needs to poll.

Each launcher object listens on a socket of its own in one folder, and a supervisor tells them all: so
one that is adopted by a later dispatcher finds it. A bell that is lost costs one poll, never more.
"""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path

_PATIENCE_SECONDS = 0.5
_LONGEST = 200


def ring(folder: Path, text: str) -> None:
    """Tell every launcher that listens in `folder`; those that are gone are cleared away."""
    try:
        listeners = list(folder.iterdir())
    except FileNotFoundError:
        return
    busy = [path for path in listeners if not _send(path, text, patience_seconds=0)]
    for path in busy:
        _send(path, text, patience_seconds=_PATIENCE_SECONDS)


class Bell:
    """The listening end."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / f"{os.getpid()}-{secrets.token_hex(3)}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self._path))
        self._socket.setblocking(False)

    def fileno(self) -> int:
        return self._socket.fileno()

    def ring(self, text: str) -> None:
        """Ring this one bell."""
        _send(self._path, text, patience_seconds=0)

    def take(self) -> set[str]:
        """Take what was told since the last call, without waiting."""
        texts = set[str]()
        while True:
            try:
                texts.add(self._socket.recv(_LONGEST).decode())
            except BlockingIOError:
                return texts

    def close(self) -> None:
        self._socket.close()
        self._path.unlink(missing_ok=True)


def _send(path: Path, text: str, *, patience_seconds: float) -> bool:
    """Send one datagram; False if the listener has too many waiting."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.settimeout(patience_seconds)
        try:
            sender.sendto(text.encode(), str(path))
        except (BlockingIOError, TimeoutError):
            return False
        except FileNotFoundError:
            return True
        except ConnectionRefusedError:  # bound by a process that is gone, and by nobody again
            path.unlink(missing_ok=True)
    return True
