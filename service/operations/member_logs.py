"""Logs of members: where they lie, and bounded reading.

`logs/UNIT/ATTEMPT/GENERATION/MEMBER.log` in the data folder holds what the member wrote last. When it
is full it is set aside as `MEMBER.log.START`, where START is the offset of its first byte in all that
the member ever wrote, and the one set aside before is dropped. So an offset keeps its meaning while
old output goes, and one rename is all that a reader can meet in the middle.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Protocol

LONGEST_READ_BYTES = 1 << 20
_TAIL_BYTES = 1 << 16
_ATTEMPTS = 5


class LogKey(Protocol):
    """Whose log: the key of a member."""

    @property
    def unit_id(self) -> int: ...
    @property
    def attempt(self) -> int: ...
    @property
    def generation(self) -> int: ...
    @property
    def member(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a log that was set aside. `start` is the offset of its first byte."""

    start: int
    path: Path


@dataclass(frozen=True, slots=True)
class LogSlice:
    """`content` begins at offset `start`, which is later than asked for if that output was dropped.
    `next_offset` is where to go on; `size` is all that was written so far."""

    start: int
    content: bytes
    size: int

    @property
    def next_offset(self) -> int:
        return self.start + len(self.content)


def log_path(data: Path, key: LogKey) -> Path:
    """Name the file that a member's output goes to."""
    folder = data / "logs" / str(key.unit_id) / str(key.attempt) / str(key.generation)
    return folder / f"{key.member}.log"


def segment_path(log: Path, start: int) -> Path:
    """Name the file under which a full log is set aside."""
    return log.with_name(f"{log.name}.{start}")


def list_segments(log: Path) -> list[Segment]:
    """List what was set aside, oldest first."""
    prefix = f"{log.name}."
    try:
        found = [path for path in log.parent.iterdir() if path.name.startswith(prefix)]
    except FileNotFoundError:
        return []
    starts = [(path.name.removeprefix(prefix), path) for path in found]
    return sorted((Segment(int(start), path) for start, path in starts if start.isdecimal()), key=_start)


def read_log(data: Path, key: LogKey, *, offset: int = 0, limit: int = 1 << 16) -> LogSlice | None:
    """Read at most `limit` bytes (and LONGEST_READ_BYTES) of a log from `offset`.

    None if the member has no log. An offset behind the end gives an empty slice at the end.
    """
    with ExitStack() as stack:
        log = _open_log(log_path(data, key), stack)
        return log.read(offset, min(limit, LONGEST_READ_BYTES)) if log else None


def tail_log(data: Path, key: LogKey, *, lines: int = 20, limit: int = _TAIL_BYTES) -> list[str]:
    """Read the last lines of a log, of at most `limit` bytes in all; bytes that are no UTF-8 show as �.

    Empty if the member has no log. The first line is cut where the bytes are used up.
    """
    with ExitStack() as stack:
        log = _open_log(log_path(data, key), stack)
        last = log.read(log.size - limit, min(limit, LONGEST_READ_BYTES)).content if log else b""
    return last.decode(errors="replace").splitlines()[-lines:] if lines > 0 else []


@dataclass(frozen=True, slots=True)
class _OpenPart:
    start: int
    file: BinaryIO
    size: int
    inode: int
    is_dropped: bool


@dataclass(frozen=True, slots=True)
class _OpenLog:
    parts: Sequence[_OpenPart]

    @property
    def size(self) -> int:
        return self.parts[-1].start + self.parts[-1].size

    def read(self, offset: int, limit: int) -> LogSlice:
        """Read on from `offset`, or from the oldest byte that is kept."""
        begin = min(max(offset, self.parts[0].start), self.size)
        content = b""
        for part in self.parts:
            position = begin + len(content) - part.start
            if 0 <= position < part.size and len(content) < limit:
                part.file.seek(position)
                content += part.file.read(min(limit - len(content), part.size - position))
        return LogSlice(begin, content, self.size)


def _open_log(log: Path, stack: ExitStack) -> _OpenLog | None:
    """Open all parts of a log as they were at one moment; None if there are none."""
    older: list[_OpenPart] = []
    for _ in range(_ATTEMPTS):
        newest = _open_part(log, 0, stack=stack)
        older = [
            part for each in list_segments(log) if (part := _open_part(each.path, each.start, stack=stack))
        ]
        # Set aside between the two looks: then where it begins is not known yet.
        has_moved = newest is not None and (
            newest.is_dropped or any(part.inode == newest.inode for part in older)
        )
        if not has_moved:
            break
    else:
        newest = None
    if newest is not None:
        start = older[-1].start + older[-1].size if older else 0
        older.append(replace(newest, start=start))
    return _OpenLog(older) if older else None


def _open_part(path: Path, start: int, *, stack: ExitStack) -> _OpenPart | None:
    try:
        file = stack.enter_context(path.open("rb"))
    except FileNotFoundError:
        return None
    found = os.fstat(file.fileno())
    return _OpenPart(start, file, found.st_size, found.st_ino, found.st_nlink == 0)


def _start(segment: Segment) -> int:
    return segment.start
