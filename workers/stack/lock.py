"""One stack for each data folder: a lock that ends with its process, and who holds it."""

from __future__ import annotations

import fcntl
import os
import signal
from pathlib import Path

from workers.embedded.identity import ProcessIdentity, find_identity
from workers.embedded.record import erase_record, find_leftover, write_record
from workers.stack.errors import AlreadyRunning

_LOCK = "lock"
_OWNER = "up"


class DataLock:
    """The right to run processes on `data`. The system releases it however its owner ends."""

    def __init__(self, data: Path, records: Path) -> None:
        self._data = data
        self._owner = records / _OWNER
        self._file: int | None = None

    @property
    def is_held(self) -> bool:
        return self._file is not None

    def take(self) -> None:
        """Take the lock or raise AlreadyRunning."""
        file = os.open(self._data / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            owner = find_owner(self._owner.parent)
            raise AlreadyRunning(self._data, owner.pid if owner else None) from None
        self._file = file
        self._owner.mkdir(mode=0o700, parents=True, exist_ok=True)
        if identity := find_identity(os.getpid()):
            write_record(self._owner, identity, stop_signal=signal.SIGTERM)

    def release(self) -> None:
        """Give the lock back; nothing happens without one."""
        if self._file is not None:
            erase_record(self._owner)
            os.close(self._file)
            self._file = None


def find_owner(records: Path) -> ProcessIdentity | None:
    """Find the process that holds the lock, if it lives."""
    return find_leftover(records / _OWNER)


def owner_folder(records: Path) -> Path:
    """The folder that holds the owner's record."""
    return records / _OWNER
