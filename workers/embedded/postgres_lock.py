"""Lock files that a killed PostgreSQL leaves behind.

They name a pid, and PostgreSQL does not start while anybody has that pid. But it may be a zombie's that its
parent does not reap, or, after a restart of the machine or the container, a process' that has nothing to do
with it.
"""

from __future__ import annotations

from pathlib import Path

import psutil


def drop_stale_locks(cluster: Path, socket_lock: Path) -> None:
    """Drop the locks of `cluster` unless a server, or a child of one, is still at work on it: they all
    work in its folder. The caller holds the lock of the data folder, so nobody is about to start one."""
    locks = [lock for lock in (cluster / "postmaster.pid", socket_lock) if lock.exists()]
    if locks and not _is_anyone_in(cluster):
        for lock in locks:
            lock.unlink(missing_ok=True)


def _is_anyone_in(folder: Path) -> bool:
    wanted = str(folder.resolve())
    return any(process.info["cwd"] == wanted for process in psutil.process_iter(["cwd"]))
