"""Processes of this machine. One is known by its pid and start within a boot, never by its pid alone."""

from __future__ import annotations

import os
import signal
import sys
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

if sys.platform == "linux":
    from workers.launchers.local import processes_linux as system
else:
    from workers.launchers.local import processes_psutil as system

MARK = "MUSTER_MEMBER"
#: Whose member: marks of different launchers may be equal.
OWNER = "MUSTER_OWNER"


class ProcessId(NamedTuple):
    """One process of one boot. `start` counts from the boot, so setting the clock does not change it."""

    pid: int
    start: str


class Process(NamedTuple):
    """A process that has not ended (one that only waits to be reaped has)."""

    id: ProcessId
    parent: int
    group: int


def read_boot_id() -> str:
    """Read what names this boot of this machine."""
    return system.read_boot_id()


def find_process(pid: int) -> Process | None:
    """Find who runs under `pid` now."""
    found = system.find_process(pid)
    return _process(pid, found) if found else None


def is_alive(process: ProcessId) -> bool:
    """Tell whether that very process still runs."""
    found = find_process(process.pid)
    return found is not None and found.id == process


def send_signal(process: ProcessId, number: signal.Signals) -> None:
    """Signal that very process, and nobody to whom its pid was given since.

    One that has ended, or that has become another user's, is not signalled: that it stays is seen.
    """
    if sys.platform != "linux":
        if is_alive(process):
            _kill(process.pid, number)
        return
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        if is_alive(process):  # of the process that the handle is fixed to
            signal.pidfd_send_signal(handle, number)
    except (ProcessLookupError, PermissionError):
        return
    finally:
        os.close(handle)


def signal_group(group: int, number: signal.Signals) -> None:
    """Signal every process of a group whose first process the caller has not reaped."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


class ProcessTable:
    """All processes at one moment."""

    def __init__(self) -> None:
        self._processes = {pid: _process(pid, fields) for pid, fields in system.list_processes()}
        self._children = defaultdict[int, list[Process]](list)
        for each in self._processes.values():
            self._children[each.parent].append(each)

    def find(self, process: ProcessId) -> Process | None:
        """Find that very process."""
        found = self._processes.get(process.pid)
        return found if found and found.id == process else None

    def descendants(self, pid: int) -> list[Process]:
        """List children, their children and so on of whoever has `pid`, without itself."""
        found: list[Process] = []
        waiting = [pid]
        while waiting:
            children = self._children.get(waiting.pop(), [])
            found += children
            waiting += [child.id.pid for child in children]
        return found

    def marks(self, owner: str) -> Iterable[tuple[Process, str]]:
        """List the processes that carry MUSTER_MEMBER of this owner and that this user may look at (X4)."""
        for each in self._processes.values():
            mark = system.read_variable(each.id.pid, MARK)
            if mark and system.read_variable(each.id.pid, OWNER) == owner:
                yield each, mark


def _process(pid: int, found: tuple[str, int, int]) -> Process:
    start, parent, group = found
    return Process(ProcessId(pid, start), parent, group)


def _kill(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return
