"""How busy the processes of a stack are: CPU seconds over a while, children with their parents."""

from __future__ import annotations

from collections.abc import Mapping

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
