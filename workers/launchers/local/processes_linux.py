"""The process table of Linux, read without any package: a supervisor imports nothing that it can spare."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_CHUNK_BYTES = 1 << 16
# Where /proc/PID/stat has them, counted from the state, which follows the command's closing bracket.
_STATE, _PARENT, _GROUP, _THREADS, _START = 0, 1, 2, 17, 19


def read_boot_id() -> str:
    return _BOOT_ID.read_text().strip()


def find_process(pid: int) -> tuple[str, int, int] | None:
    """Read start, parent and process group of a process that has not ended."""
    try:
        text = _read(f"/proc/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    # A zombie has ended, unless threads of it live on after its first one.
    if fields[_STATE] in {b"Z", b"X"} and int(fields[_THREADS]) <= 1:
        return None
    return fields[_START].decode(), int(fields[_PARENT]), int(fields[_GROUP])


def list_processes() -> Iterator[tuple[int, tuple[str, int, int]]]:
    """List every process as `find_process` shows it, by pid."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - a thousand paths cost more than what is read
        if name.isdecimal() and (found := find_process(int(name))):
            yield int(name), found


def read_variable(pid: int, name: str) -> str | None:
    """Read a variable that a process was started with; None if it has none or is out of reach."""
    try:
        environment = _read(f"/proc/{pid}/environ")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    wanted = f"{name}=".encode()
    for each in environment.split(b"\0"):
        if each.startswith(wanted):
            return os.fsdecode(each.removeprefix(wanted))
    return None


def _read(path: str) -> bytes:
    """Read a file of the kernel: without the layers of Python's files, which a fresh fork would copy."""
    file = os.open(path, os.O_RDONLY)
    try:
        return b"".join(iter(lambda: os.read(file, _CHUNK_BYTES), b""))
    finally:
        os.close(file)
