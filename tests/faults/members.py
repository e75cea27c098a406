"""What really runs, whatever the books say: processes of this machine, or members that live on a clock.

No two members may sit on one device, and no two generations of a unit may live.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import msgspec
import psutil

from workers.launchers.base import MemberKey
from workers.launchers.local.layout import Layout, parse_mark
from workers.launchers.local.processes import Process, ProcessTable, is_alive
from workers.launchers.simulated_journal import SimulatedMember

Mark = tuple[Process, MemberKey]


class Members(Protocol):
    """Of one launcher."""

    def find_faults(self) -> list[str]:
        """Who shares with somebody else what only one may have."""

    def live(self) -> list[MemberKey]:
        """Who runs now."""


class Processes:
    """Members of the local launcher on the stack's `data`."""

    def __init__(self, data: Path) -> None:
        self._owner = owner_of(data)

    def find_faults(self) -> list[str]:
        marks = list(find_marks(self._owner))
        return [
            *_overlaps("device", marks, lambda mark: _device_of(mark[0])),
            *_overlaps("unit", marks, lambda mark: str(mark[1].unit_id), of=lambda key: key.of),
        ]

    def live(self) -> list[MemberKey]:
        return [key for _, key in find_marks(self._owner)]


class SimulatedMembers:
    """Members of the simulated launcher on the stack's `data`, as its journal has them."""

    def __init__(self, data: Path) -> None:
        self._path = data / "simulated.sqlite"

    def find_faults(self) -> list[str]:
        faults = []
        seats: dict[tuple[str, int], SimulatedMember] = {}
        generations: dict[int, SimulatedMember] = {}
        for member in self._read():
            for device in member.devices:
                other = seats.setdefault((member.node, device), member)
                if other is not member:
                    faults.append(f"simulated: device {device} is used by {other.key} and {member.key}")
            other = generations.setdefault(member.unit_id, member)
            if other.key[:3] != member.key[:3]:
                faults.append(f"simulated: {other.key} and {member.key} live at once")
        return faults

    def live(self) -> list[MemberKey]:
        return [MemberKey(*member.key) for member in self._read()]

    def _read(self) -> list[SimulatedMember]:
        """What ends by the clock is written only with the next change."""
        now = datetime.now(UTC)
        with closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True, timeout=10)) as db:
            rows = db.execute("SELECT body FROM members").fetchall()
        members = [msgspec.json.decode(body, type=SimulatedMember) for (body,) in rows]
        return [
            member
            for member in members
            if member.is_live
            and not any(due and due <= now for due in (member.ends_at, member.stops_at, member.kill_at))
        ]


def owner_of(data: Path) -> str:
    """What names the launcher of the stack on `data` in its members' environment."""
    return Layout(data / "launcher").owner


def find_marks(owner: str) -> Iterable[Mark]:
    """Processes that carry the mark of a member of the launcher `owner`."""
    for process, text in ProcessTable().marks(owner):
        if key := parse_mark(text):
            yield process, key


def _overlaps(
    what: str,
    marks: Iterable[Mark],
    place_of: Callable[[Mark], str | None],
    *,
    of: Callable[[MemberKey], object] = lambda key: key,
) -> Iterable[str]:
    """What two live processes of different members share that only one may have. The table is not
    read at one moment, so who was seen first must still be there after the other was seen."""
    first: dict[str, Mark] = {}
    for mark in marks:
        place = place_of(mark)
        if place is None:
            continue
        other = first.setdefault(place, mark)
        if of(other[1]) == of(mark[1]):
            continue
        if is_alive(mark[0].id) and is_alive(other[0].id):
            yield f"processes: {what} {place} is used by {other[1]} and {mark[1]}"
        else:
            first[place] = mark


def _device_of(process: Process) -> str | None:
    try:
        return psutil.Process(process.id.pid).environ().get("CUDA_VISIBLE_DEVICES")
    except psutil.Error:
        return None
