"""Copies a member's output to its log, of which the newest part is kept.

The log is cut into segments of half the limit: when the present one is full it is set aside under a
name that says where it began, and the one before it is dropped. `service.operations.member_logs`
describes the layout and reads it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from service.domain.masking import StreamMask
from service.operations.member_logs import list_segments, segment_path
from service.points import reach

_CHUNK_BYTES = 1 << 18


class LogPump:
    """From a pipe to a file, without the values in `hidden`. A disk that is full costs output, never
    the member; where something is missing the log says how much."""

    def __init__(self, source: int, log: Path, *, limit_bytes: int, hidden: Sequence[str] = ()) -> None:
        self._source = source
        self._log = log
        self._segment_bytes = max(limit_bytes // 2, 1)
        self._start = 0
        self._mask = StreamMask(hidden)
        self.failure: str | None = None
        """Why output was lost, if any was."""
        self._lost_bytes = 0
        os.set_blocking(source, False)
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = self._open()
        self._size = os.fstat(self._file).st_size

    def copy(self) -> int:
        """Copy what is waiting, at most one chunk. Returns its size: 0 at the end, -1 when none waits."""
        try:
            chunk = os.read(self._source, _CHUNK_BYTES)
        except BlockingIOError:
            return -1
        self._keep(self._mask.feed(chunk))
        return len(chunk)

    def drain(self) -> None:
        """Copy what the members of a tree left in the pipe; a stranger that holds it is not waited for."""
        for _ in range(8):
            if self.copy() <= 0:
                return

    def close(self) -> None:
        self._keep(self._mask.rest())
        os.close(self._file)
        os.close(self._source)

    def _keep(self, content: bytes) -> None:
        if not content:
            return
        if self._lost_bytes:
            note = f"\n[{self._lost_bytes} bytes of output lost: {self.failure}]\n".encode()
            if self._write(note) < len(note):
                self._lost_bytes += len(content)
                return
            self._lost_bytes = 0
        self._lost_bytes += len(content) - self._write(content)

    def _write(self, content: bytes) -> int:
        """How much could be written."""
        rest = memoryview(content)
        try:
            while rest:
                if self._size >= self._segment_bytes:
                    self._turn()
                written = os.write(self._file, rest[: self._segment_bytes - self._size])
                self._size += written
                rest = rest[written:]
        except OSError as error:
            self.failure = error.strerror
        return len(content) - len(rest)

    def _turn(self) -> None:
        """Begin the next segment. One rename tells a reader all: the new name says where it began."""
        older = [segment for segment in list_segments(self._log) if segment.start < self._start]
        with contextlib.suppress(FileNotFoundError):  # set aside already, but the disk was full for a new one
            self._log.rename(segment_path(self._log, self._start))
        reach("supervisor.log-set-aside")
        fresh = self._open()
        os.close(self._file)
        self._file = fresh
        self._start += self._size
        self._size = 0
        reach("supervisor.log-begun")
        for segment in older:
            segment.path.unlink(missing_ok=True)

    def _open(self) -> int:
        return os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
