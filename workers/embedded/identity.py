"""Which process a pid means: boot id, pid and start together, since pids are handed out again."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True)
class ProcessIdentity:
    """One process of one boot. `start` counts from the boot, so setting the clock does not change it."""

    boot_id: str
    pid: int
    start: str


def read_boot_id() -> str:
    """Read what names this boot of this machine."""
    if platform.system() == "Linux":
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{psutil.boot_time():.0f}"


def find_identity(pid: int) -> ProcessIdentity | None:
    """Find who runs under `pid` now; None if nobody does, or only a zombie that waits for its parent."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return ProcessIdentity(read_boot_id(), pid, _read_start(process))
    except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        return None


def is_alive(identity: ProcessIdentity) -> bool:
    """Tell whether that very process still runs."""
    return find_identity(identity.pid) == identity


def _read_start(process: psutil.Process) -> str:
    if platform.system() == "Linux":
        # Field 22, counted behind the command's closing bracket since a command may hold spaces.
        stat = Path(f"/proc/{process.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[19]
    return f"{process.create_time():.3f}"
