"""Ctrl-C, SIGTERM and a closed terminal end the demo in order."""

from __future__ import annotations

import signal
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def stop_on_signals() -> None:
    """The first signal raises KeyboardInterrupt. Later ones are ignored: what follows is the clean-up."""
    for each in _SIGNALS:
        signal.signal(each, _interrupt)


def _interrupt(_: int, __: FrameType | None) -> None:
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt
