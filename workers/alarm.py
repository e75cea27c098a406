"""A wake-up that rings by itself when waiting is over."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Alarm:
    """One timer: setting it anew forgets what it was set to before. `ring` runs in a thread of its own
    and must not raise."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._timer: threading.Timer | None = None

    def set(self, seconds: float | None) -> None:
        """Ring in so many seconds; never, if None."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds is not None:
            self._timer = threading.Timer(max(0.0, seconds), self._ring)
            self._timer.daemon = True
            self._timer.start()
