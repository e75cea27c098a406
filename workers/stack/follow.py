"""Follows the log files of a folder line by line."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

_LOOK_SECONDS = 0.1
_CHUNK_BYTES = 256 * 1024


class LogFollower:
    """Calls `write(name, line)` for each line that is appended to FOLDER/NAME.log from now on.

    Files may appear later and may be replaced. `write` is called by one thread.
    """

    def __init__(self, folder: Path, write: Callable[[str, str], None]) -> None:
        self._folder = folder
        self._write = write
        self._read = {path: path.stat().st_size for path in folder.glob("*.log")}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-follower", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Return when everything that was written before has been shown."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(_LOOK_SECONDS):
            self._look()
        self._look()

    def _look(self) -> None:
        for path in sorted(self._folder.glob("*.log")):
            for line in self._new_lines(path):
                self._write(path.stem, line)

    def _new_lines(self, path: Path) -> list[str]:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            first = self._read.get(path, 0)
            file.seek(first if first <= size else 0)
            start = file.tell()
            # The last line may still be growing.
            whole = file.read(_CHUNK_BYTES).rpartition(b"\n")[0]
        if whole:
            self._read[path] = start + len(whole) + 1
        elif start != first:
            self._read[path] = start
        return whole.decode(errors="replace").splitlines()
