"""Wait for something that a stack does in its own time."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_for(is_so: Callable[[], bool], what: str, *, seconds: float = 60.0, pause: float = 0.1) -> None:
    """Look every `pause` seconds. Raises TimeoutError that says `what`."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(pause)
