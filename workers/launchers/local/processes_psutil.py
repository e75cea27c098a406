"""The process table of other systems than Linux (macOS), through psutil."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psutil


def read_boot_id() -> str:
    return f"{psutil.boot_time():.0f}"


def find_process(pid: int) -> tuple[str, int, int] | None:
    """Read start, parent and process group of a process that has not ended."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return f"{process.create_time():.3f}", process.ppid(), os.getpgid(pid)
    except (psutil.NoSuchProcess, psutil.AccessDenied, ProcessLookupError, PermissionError):
        return None


def list_processes() -> Iterator[tuple[int, tuple[str, int, int]]]:
    """List every process as `find_process` shows it, by pid."""
    for pid in psutil.pids():
        if found := find_process(pid):
            yield pid, found


def read_variable(pid: int, name: str) -> str | None:
    """Read a variable that a process was started with; None if it has none or is out of reach."""
    try:
        return psutil.Process(pid).environ().get(name)
    except (psutil.Error, OSError):
        return None
