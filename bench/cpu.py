"""How busy the processes of a stack are: CPU seconds over a while, children with their parents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from workers.stack import Stack


class CpuMeter:
    """Counts from when it is made."""

    def __init__(self, stack: Stack) -> None:
        self._pids = {part.name: part.pid for part in stack.parts.watched if part.pid is not None}
        self._before = self._read()

    def seconds(self) -> Mapping[str, float]:
        """CPU seconds by process since then. A child that came and went in between is missing."""
        now = self._read()
        return {name: now[name] - self._before.get(name, 0.0) for name in now}

    def _read(self) -> dict[str, float]:
        return {name: cpu_seconds(pid) for name, pid in self._pids.items()}


def cpu_seconds(pid: int) -> float:
    """What a process and its live children have used so far."""
    process = psutil.Process(pid)
    total = 0.0
    for each in (process, *process.children(recursive=True)):
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def cpu_of(call: Callable[[], object], pids: Sequence[int]) -> float:
    """What these processes and their children use while `call` runs, to the microsecond where the system
    counts so. Of a child or a thread that is gone afterwards nothing counts."""
    before = _by_thread(pids)
    call()
    return sum(seconds - before.get(thread, 0.0) for thread, seconds in _by_thread(pids).items())


def _by_thread(pids: Sequence[int]) -> dict[str, float]:
    found: dict[str, float] = {}
    for pid in pids:
        parent = psutil.Process(pid)
        for process in (parent, *parent.children(recursive=True)):
            found |= _threads(process.pid)
    return found


def _threads(pid: int) -> dict[str, float]:
    """Linux counts in nanoseconds, psutil everywhere in hundredths of a second."""
    tasks = Path(f"/proc/{pid}/task")
    found: dict[str, float] = {}
    try:
        if not (tasks / str(pid) / "schedstat").exists():
            times = psutil.Process(pid).cpu_times()
            return {str(pid): times.user + times.system}
        for task in tasks.iterdir():
            told = (task / "schedstat").read_text(encoding="ascii")
            found[f"{pid}/{task.name}"] = int(told.split()[0]) / 1e9
    except (psutil.NoSuchProcess, OSError):
        # It has just ended.
        return found
    return found
