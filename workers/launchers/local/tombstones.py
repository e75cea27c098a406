"""Tombstones (X2): the newest generation of each unit that may never start again.

A tombstone is a file of its unit to which "attempt generation" is appended; the greatest counts. So
writers need no lock, and a late one cannot take back what another has forbidden.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from service.points import reach
from workers.launchers.base import GenerationKey
from workers.launchers.local import durable
from workers.launchers.local.layout import Layout

#: Files that are open at a time.
_AT_ONCE = 256


def is_closed(layout: Layout, key: GenerationKey) -> bool:
    """Tell whether this generation, or a later one of its unit, was closed."""
    newest = _read_newest(layout.tombstone(key.unit_id))
    return newest is not None and (key.attempt, key.generation) <= newest


def forbid(layout: Layout, keys: Iterable[GenerationKey]) -> None:
    """Durably close generations and all before them; a repeated call writes nothing."""
    new = [key for key in keys if not is_closed(layout, key)]
    for start in range(0, len(new), _AT_ONCE):
        with durable.synced_together() as append:
            for key in new[start : start + _AT_ONCE]:
                append(layout.tombstone(key.unit_id), f"{key.attempt} {key.generation}")
                reach("launcher.tombstone-written")
    if new:
        durable.sync_folder(layout.tombstones)


def _read_newest(path: Path) -> tuple[int, int] | None:
    marks = [line.split() for line in durable.read_lines(path)]
    return max(((int(mark[0]), int(mark[1])) for mark in marks if len(mark) == 2), default=None)
