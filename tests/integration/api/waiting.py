"""Waiting for what other threads do."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(is_true: Callable[[], bool], *, seconds: float = 5.0) -> None:
    """Fail if it does not come true in time."""
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.005)
