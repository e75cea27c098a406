"""The log of one process: appended to by whoever runs it, bounded while it runs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

#: There are at most twice as many bytes: the newest, and those before them in `NAME.log.1`.
LIMIT_BYTES = 10_000_000
_TAIL_BYTES = 4_000


def open_log(log: Path) -> int:
    """A descriptor that appends to `log`, which its owner alone can read."""
    bound_log(log)
    return os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def bound_log(log: Path, *, limit_bytes: int = LIMIT_BYTES) -> None:
    """Set aside what `log` holds when it is more than the limit.

    The file stays the same, since its writers keep it open; as they append, they go on at its new
    beginning. What they write between the end of the copy and the cut is lost.
    """
    if log_size(log) <= limit_bytes:
        return
    draft = log.with_name(f"{log.name}.1.new")
    try:
        with log.open("r+b") as source, draft.open("wb") as target:
            os.fchmod(target.fileno(), 0o600)
            shutil.copyfileobj(source, target)
            source.truncate(0)
        draft.replace(log.with_name(f"{log.name}.1"))
    finally:
        draft.unlink(missing_ok=True)


def log_size(log: Path) -> int:
    """Count the bytes that a log holds so far."""
    return log.stat().st_size if log.exists() else 0


def read_tail(log: Path, *, since: int = 0) -> str:
    """Read the end of what was written behind the first `since` bytes of a log."""
    written = log.read_bytes()[since:] if log.exists() else b""
    return written[-_TAIL_BYTES:].decode(errors="replace").strip()
