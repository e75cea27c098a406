"""Imported by every interpreter that finds this folder on its path: samples where its main thread
spends CPU time, and writes that down when it ends.

A signal comes for each few milliseconds of CPU time, so that waiting counts for nothing. Only frames of
the service's own packages are kept; what a library does counts for its caller.
"""

from __future__ import annotations

import atexit
import os
import signal
from collections import Counter
from pathlib import Path
from types import FrameType

_SECONDS = 0.002
_ROOT = str(Path(__file__).resolve().parent.parent.parent)

_stacks: Counter[tuple[str, ...]] = Counter()


def _note(_signal: int, frame: FrameType | None) -> None:
    stack = []
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith((f"{_ROOT}/service/", f"{_ROOT}/workers/")):
            stack.append(f"{code.co_filename[len(_ROOT) + 1 :]}:{code.co_qualname}")
        frame = frame.f_back
    _stacks[tuple(stack)] += 1


def _write(folder: str) -> None:
    signal.setitimer(signal.ITIMER_PROF, 0)
    # One that is under way would end an interpreter that is being taken down.
    signal.signal(signal.SIGPROF, signal.SIG_IGN)
    lines = (f"{count} {';'.join(stack)}\n" for stack, count in _stacks.items())
    Path(folder, f"{os.getpid()}.stacks").write_text("".join(lines), encoding="utf-8")


if _folder := os.environ.get("BENCH_SAMPLES"):
    signal.signal(signal.SIGPROF, _note)
    signal.setitimer(signal.ITIMER_PROF, _SECONDS, _SECONDS)
    atexit.register(_write, _folder)
