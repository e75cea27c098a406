"""Drops what is older than seven days (X6): tombstones, records of ended members, logs."""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta
from pathlib import Path

from workers.launchers.local.known import KnownMembers
from workers.launchers.local.layout import Layout

KEPT = timedelta(days=7)


def sweep(data: Path, known: KnownMembers, *, now: datetime) -> bool:
    """Drop what is too old; True if a record was among it. What belongs to a live member stays.

    A tombstone may go since every claim that could still be launched is younger (X6).
    """
    layout = Layout(data / "launcher")
    limit = (now - KEPT).timestamp()
    has_dropped = known.drop_ended_before(now - KEPT)
    for tombstone in layout.tombstones.iterdir():
        if tombstone.stat().st_mtime < limit:
            tombstone.unlink(missing_ok=True)
    kept = {str(unit_id) for unit_id in layout.list_units()}
    for folder in _list_log_folders(data):
        if folder.name not in kept and _newest_change(folder) < limit:
            shutil.rmtree(folder, ignore_errors=True)
    return has_dropped


def _list_log_folders(data: Path) -> list[Path]:
    """Those of units. What the stack itself writes lies beside them and is not ours to drop."""
    logs = data / "logs"
    return [folder for folder in logs.iterdir() if folder.name.isdecimal()] if logs.is_dir() else []


def _newest_change(folder: Path) -> float:
    return max(path.stat().st_mtime for path in (folder, *folder.rglob("*")))
