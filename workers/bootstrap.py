"""What every long-lived process needs: a name, a stop flag set by signals, and patience."""

from __future__ import annotations

import os
import signal
import socket
import threading
import uuid
from collections.abc import Iterator
from types import FrameType


def process_name(kind: str) -> str:
    """A name that no other process has, also not one of the same pid later."""
    return f"{kind}:{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


def stop_on_signals(stop: threading.Event) -> None:
    """Set `stop` on SIGTERM and SIGINT. Only from the main thread; again after a library has put its
    own handlers in place."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)


def backoff(*, first_seconds: float = 0.1, most_seconds: float = 5.0) -> Iterator[float]:
    """Growing waits between tries, without end."""
    seconds = first_seconds
    while True:
        yield seconds
        seconds = min(seconds * 2, most_seconds)
