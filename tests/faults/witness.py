"""Looks at everything while faults happen: the books, the ledger and the processes themselves.

At no moment may a gang hold a part of what it needs, two members sit on one device, or two
generations of a unit live.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
import psycopg

from service.client import Client, ClientError
from service.client.address import Address
from workers.launchers.base import MemberKey
from workers.launchers.local.layout import Layout, parse_mark
from workers.launchers.local.processes import Process, ProcessTable, is_alive

_PAUSE_SECONDS = 0.1

_HOLDS = """
    SELECT u.id, u.status, g.member_count, g.scheduling, u.first_index = u.last_index,
           count(h.device), count(DISTINCT a.unit_id)
    FROM units u JOIN groups g ON g.id = u.group_id
    LEFT JOIN attempts a ON a.unit_id = u.id
    LEFT JOIN held_devices h ON h.unit_id = u.id
    GROUP BY u.id, u.status, g.member_count, g.scheduling
"""
_HOLDING = {"Admitted", "Starting", "Running", "Recovering", "Evicting"}

Mark = tuple[Process, MemberKey]


def connect(data: Path) -> psycopg.Connection:
    """A connection to the PostgreSQL of the stack on `data`."""
    return psycopg.connect(
        host=str(data / "sockets" / "postgres"), user="muster", dbname="postgres", autocommit=True
    )


class Witness:
    """Samples from a thread of its own until the block is left; `faults` tells what was wrong, and
    `samples` how often each source could be read. Every member of every group has one GPU."""

    def __init__(self, data: Path, address: Address) -> None:
        self.faults: list[str] = []
        self.samples = {"books": 0, "ledger": 0, "processes": 0}
        self._data = data
        self._address = address
        self._owner = owner_of(data)
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._look_again_and_again, args=(look,), name=look.__name__)
            for look in (self._look_at_books, self._look_at_ledger, self._look_at_processes)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _look_again_and_again(self, look: Callable[[], None]) -> None:
        while not self._is_over.wait(_PAUSE_SECONDS):
            try:
                look()
            except (psycopg.Error, ClientError):
                continue  # that store is away just now

    def _look_at_books(self) -> None:
        with connect(self._data) as conn:
            while not self._is_over.wait(_PAUSE_SECONDS):
                for unit_id, status, members, scheduling, is_one, held, attempts in conn.execute(_HOLDS):
                    wanted = 0
                    if status in _HOLDING:
                        wanted = members if scheduling == "gang" else 1
                    if (held, attempts) != (wanted, min(wanted, 1)) or (held and not is_one and wanted == 1):
                        self.faults.append(f"books: unit {unit_id} is {status} and holds {held} of {wanted}")
                self.samples["books"] += 1

    def _look_at_ledger(self) -> None:
        with Client(self._address) as client:
            inventory = client.inventory()
            held: Counter[tuple[str, int]] = Counter()
            devices: Counter[tuple[str, int]] = Counter()
            for node in inventory.nodes:
                for holder in node.holders:
                    held[holder.group, holder.index] += len(holder.gpus)
                    devices.update((node.name, device) for device in holder.gpus)
            for (group_id, index), gpus in held.items():
                group = client.get(group_id)
                wanted = group.wanted_gpus if group.scheduling == "gang" else 1
                if gpus != wanted:
                    self.faults.append(f"ledger: {group_id}/{index} holds {gpus} of {wanted}")
            self.faults += [f"ledger: {place} is held twice" for place, n in devices.items() if n > 1]
            if inventory.gpus_held + inventory.gpus_free + inventory.gpus_lost != inventory.gpus_total:
                self.faults.append(f"ledger: the sums are wrong: {inventory}")
            self.samples["ledger"] += 1

    def _look_at_processes(self) -> None:
        marks = list(find_marks(self._owner))
        self._name_overlaps("device", marks, lambda mark: _device_of(mark[0]))
        self._name_overlaps("unit", marks, lambda mark: str(mark[1].unit_id), of=lambda key: key.of)
        self.samples["processes"] += 1

    def _name_overlaps(
        self,
        what: str,
        marks: Iterable[Mark],
        place_of: Callable[[Mark], str | None],
        *,
        of: Callable[[MemberKey], object] = lambda key: key,
    ) -> None:
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
                self.faults.append(f"processes: {what} {place} is used by {other[1]} and {mark[1]}")
            else:
                first[place] = mark


def owner_of(data: Path) -> str:
    """What names the launcher of the stack on `data` in its members' environment."""
    return Layout(data / "launcher").owner


def find_marks(owner: str) -> Iterable[Mark]:
    """Processes that carry the mark of a member of the launcher `owner`."""
    for process, text in ProcessTable().marks(owner):
        if key := parse_mark(text):
            yield process, key


def _device_of(process: Process) -> str | None:
    try:
        return psutil.Process(process.id.pid).environ().get("CUDA_VISIBLE_DEVICES")
    except psutil.Error:
        return None


def wait_without_members(data: Path, *, seconds: float = 10.0) -> None:
    """Wait until no process with a member's mark is left."""
    owner = owner_of(data)
    deadline = time.monotonic() + seconds
    while left := [key for _, key in find_marks(owner)]:
        assert time.monotonic() < deadline, f"members still run: {left}"
        time.sleep(0.1)
