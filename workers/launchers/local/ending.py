"""Ends the processes of members that must not run: of closed generations, and of killed supervisors."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from service.points import reach
from workers.launchers.base import GenerationKey, MemberKey
from workers.launchers.local.known import KnownMembers
from workers.launchers.local.layout import parse_mark
from workers.launchers.local.processes import Process, ProcessTable, is_alive, send_signal
from workers.launchers.local.records import End, Record

#: A supervisor that has nothing left to watch ends by itself, unless something froze it.
_SUPERVISOR_PATIENCE_SECONDS = 0.2
_LOOK_AGAIN_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What still runs of some members: the `processes` of each and, where alive, its supervisor."""

    processes: dict[MemberKey, list[Process]] = field(default_factory=dict)
    supervisors: dict[MemberKey, Process] = field(default_factory=dict)

    def add(self, key: MemberKey, processes: Iterable[Process]) -> None:
        found = list(processes)
        if found:
            self.processes.setdefault(key, []).extend(found)

    @property
    def keys(self) -> set[MemberKey]:
        return self.processes.keys() | self.supervisors.keys()


def find_leftovers(
    records: Sequence[Record], *, owner: str, boot_id: str, is_meant: Callable[[MemberKey], bool]
) -> Leftovers:
    """Find what runs of members without an end, by record and descent, and by their mark (X4).

    `is_meant` says of a mark whether it is one of theirs. Looks twice before it says that nothing is
    left: the table is not read at one moment, and a process that forks and ends may slip through once.
    """
    found = _look(records, owner=owner, boot_id=boot_id, is_meant=is_meant)
    return found if found.keys else _look(records, owner=owner, boot_id=boot_id, is_meant=is_meant)


def kill(leftovers: Leftovers, *, with_supervisors: bool) -> None:
    """Kill what runs of members; their supervisors only where nothing else is left to them."""
    for processes in leftovers.processes.values():
        for process in processes:
            send_signal(process.id, signal.SIGKILL)
    if with_supervisors:
        for key, supervisor in leftovers.supervisors.items():
            if key not in leftovers.processes:
                send_signal(supervisor.id, signal.SIGKILL)


class Closed:
    """Which keys are closed by a list of generations: these, and all before them of the same unit."""

    def __init__(self, keys: Iterable[GenerationKey]) -> None:
        self._newest: dict[int, tuple[int, int]] = {}
        for key in keys:
            generation = (key.attempt, key.generation)
            self._newest[key.unit_id] = max(self._newest.get(key.unit_id, generation), generation)

    @property
    def units(self) -> list[int]:
        return list(self._newest)

    @property
    def generations(self) -> list[GenerationKey]:
        """The newest closed one of each unit."""
        return [GenerationKey(unit_id, *newest) for unit_id, newest in self._newest.items()]

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, MemberKey | GenerationKey):
            return False
        newest = self._newest.get(key.unit_id)
        return newest is not None and (key.attempt, key.generation) <= newest


def end_closed(
    closed: Closed, known: KnownMembers, *, boot_id: str, now: datetime, patience_seconds: float
) -> set[MemberKey]:
    """End everything of closed generations. Returns members of which something is still there.

    1. Read their records, after the tombstone was written (X3). Ended ones have nothing left.
    2. Kill the others' processes, and look again until none is left or the patience is over.
    3. A supervisor that has nothing left and does not end is killed: it was frozen.
    4. Note the end of those whose supervisor could not.
    """
    files = [file for unit in closed.units for file in known.of_unit(unit) if file.record.key in closed]
    open_records = [file.record for file in files if file.end is None]
    if not open_records and {file.record.key.of for file in files}.issuperset(closed.generations):
        return set()
    started = time.monotonic()
    while True:
        left = find_leftovers(open_records, owner=known.owner, boot_id=boot_id, is_meant=closed.__contains__)
        waited = time.monotonic() - started
        if not left.keys or waited > patience_seconds:
            break
        kill(left, with_supervisors=waited > _SUPERVISOR_PATIENCE_SECONDS)
        reach("launcher.closed-killed")
        time.sleep(_LOOK_AGAIN_SECONDS)
    gone = [record for record in open_records if record.key not in left.keys]
    for record in known.without_end(gone):
        known.add_end(record, End(ended_at=now, detail="ended when its generation was closed"))
        reach("launcher.closed-ended")
    return left.keys


def end_abandoned(known: KnownMembers, *, boot_id: str, now: datetime) -> tuple[set[MemberKey], bool]:
    """End what killed supervisors left, then note those members' end: nobody else can any more.

    Returns members of which something is still there, which until then do not count as lost, and
    whether an end was noted.
    """
    suspects = [record for record in known.live() if not _has_supervisor(record, boot_id)]
    abandoned = known.without_end(suspects)
    if not abandoned:
        return set(), bool(suspects)
    keys = {record.key for record in abandoned}
    left = find_leftovers(abandoned, owner=known.owner, boot_id=boot_id, is_meant=keys.__contains__)
    kill(left, with_supervisors=False)
    reach("launcher.abandoned-killed")
    gone = [record for record in abandoned if record.key not in left.keys]
    for record in gone:
        is_node_lost = record.boot_id != boot_id
        detail = "the machine was started anew" if is_node_lost else "its supervisor was killed"
        known.add_end(record, End(ended_at=now, detail=detail, is_node_lost=is_node_lost))
        reach("launcher.abandoned-ended")
    return left.keys, bool(gone)


def _has_supervisor(record: Record, boot_id: str) -> bool:
    return record.boot_id == boot_id and is_alive(record.supervisor)


def _look(
    records: Sequence[Record], *, owner: str, boot_id: str, is_meant: Callable[[MemberKey], bool]
) -> Leftovers:
    table = ProcessTable()
    found = Leftovers()
    for record in records:
        if record.boot_id != boot_id:  # who ran under another boot is gone
            continue
        if supervisor := table.find(record.supervisor):
            found.supervisors[record.key] = supervisor
            found.add(record.key, table.descendants(supervisor.id.pid))
        elif member := table.find(record.member):
            found.add(record.key, [member, *table.descendants(member.id.pid)])
    for process, mark in table.marks(owner):
        key = parse_mark(mark)
        if key and is_meant(key):
            found.add(key, [process, *table.descendants(process.id.pid)])
    return found
