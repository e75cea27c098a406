"""Imported by every interpreter that finds this folder on its path: samples where it spends CPU time, and
writes that down when it ends.

A signal comes for each few milliseconds of CPU time, so that waiting counts for nothing. It counts for the
thread that used most since the one before; threads count as called by the server that the main thread runs.
Only frames of the service's own packages are kept; what a library does counts for its caller.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType

_SECONDS = 0.002
#: The signal is handled by the main thread, which has to get the interpreter's lock first. With the usual
#: patience of 5 ms a thread would mostly be seen where it lets go of the lock by itself: where it waits.
_SWITCH_SECONDS = 0.0001
#: So many samples may be lost: not every process comes to the end of its interpreter.
_EVERY = 100
_ROOT = str(Path(__file__).resolve().parent.parent.parent)

_SERVER = "service/api/server.py:run"

_seconds_of: dict[int, float] = {}
_stacks: Counter[tuple[str, ...]] = Counter()


def _note(_signal: int, frame: FrameType | None) -> None:
    stack = _own_frames(frame)
    busiest = _busiest_thread()
    if busiest != threading.main_thread().ident and _SERVER in stack:
        below = _own_frames(sys._current_frames().get(busiest))
        stack = below + stack[stack.index(_SERVER) :]
    _stacks[tuple(stack)] += 1
    if _stacks.total() % _EVERY == 0 and _folder:
        _write(_folder)


def _own_frames(frame: FrameType | None) -> list[str]:
    """From the innermost to the outermost."""
    stack = []
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith((f"{_ROOT}/service/", f"{_ROOT}/workers/")):
            stack.append(f"{code.co_filename[len(_ROOT) + 1 :]}:{code.co_qualname}")
        frame = frame.f_back
    return stack


def _busiest_thread() -> int:
    """The thread of this process that used most CPU time since the last call."""
    used = {}
    for thread in threading.enumerate():
        if thread.ident is None or not hasattr(time, "pthread_getcpuclockid"):
            continue
        try:
            now = time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
        except OSError:  # it has just ended
            continue
        used[thread.ident] = now - _seconds_of.get(thread.ident, 0.0)
        _seconds_of[thread.ident] = now
    return max(used, key=lambda ident: used[ident], default=threading.main_thread().ident or 0)


def _end(folder: str) -> None:
    signal.setitimer(signal.ITIMER_PROF, 0)
    # One that is under way would end an interpreter that is being taken down.
    signal.signal(signal.SIGPROF, signal.SIG_IGN)
    _write(folder)


def _write(folder: str) -> None:
    lines = (f"{count} {';'.join(stack)}\n" for stack, count in _stacks.items())
    Path(folder, f"{os.getpid()}.stacks").write_text("".join(lines), encoding="utf-8")


if _folder := os.environ.get("BENCH_SAMPLES"):
    sys.setswitchinterval(_SWITCH_SECONDS)
    signal.signal(signal.SIGPROF, _note)
    signal.setitimer(signal.ITIMER_PROF, _SECONDS, _SECONDS)
    atexit.register(_end, _folder)
