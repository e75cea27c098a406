"""Looks at everything while faults happen: the books, the ledger and the members themselves.

At no moment may a gang hold a part of what it needs, or an elastic one less than its minimum or anything but
its places, two members sit on one device, or two generations of a unit live. Nor may two count on
one device that others give up for them.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg

from service.client import Client, ClientError
from service.client.address import Address
from tests.faults.members import Members, Processes

_PAUSE_SECONDS = 0.1

#: Of what has not ended, and of what has and holds something all the same.
_HOLDS = """
    SELECT u.id, u.status, CASE g.scheduling WHEN 'gang' THEN s.least ELSE 1 END,
           CASE g.scheduling WHEN 'gang' THEN g.member_count ELSE 1 END,
           (SELECT count(*) FROM held_devices h WHERE h.unit_id = u.id),
           COALESCE(jsonb_array_length(a.places), 0), a.unit_id IS NOT NULL
    FROM units u JOIN groups g ON g.id = u.group_id
    LEFT JOIN attempts a ON a.unit_id = u.id
    CROSS JOIN LATERAL (SELECT sum((role ->> 'min_count')::int) AS least
                        FROM shapes, jsonb_array_elements(shape -> 'roles') AS role
                        WHERE id = g.shape_id) AS s
    WHERE u.ended_at IS NULL OR a.unit_id IS NOT NULL OR EXISTS (
        SELECT FROM held_devices h WHERE h.unit_id = u.id)
"""
_COUNTED_TWICE = """
    SELECT p ->> 2 AS node_id, d AS device, array_agg(c.unit_id)
    FROM claims c, jsonb_array_elements(places) p, jsonb_array_elements_text(p -> 3) d
    WHERE c.cause = 'Preemption' GROUP BY 1, 2 HAVING count(*) > 1
"""
_HOLDING = {"Admitted", "Starting", "Running", "Recovering", "Evicting"}


def connect(data: Path) -> psycopg.Connection:
    """A connection to the PostgreSQL of the stack on `data`."""
    return psycopg.connect(
        host=str(data / "sockets" / "postgres"), user="muster", dbname="postgres", autocommit=True
    )


class Witness:
    """Samples from a thread of its own until the block is left; `faults` tells what was wrong, and
    `samples` how often each source could be read. Every member of every group has one GPU."""

    def __init__(self, data: Path, address: Address, *, members: Members | None = None) -> None:
        self.faults: list[str] = []
        self.samples = {"books": 0, "ledger": 0, "members": 0}
        self._data = data
        self._address = address
        self._members = members or Processes(data)
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._look_again_and_again, args=(look,), name=look.__name__)
            for look in (self._look_at_books, self._look_at_ledger, self._look_at_members)
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
                for unit_id, status, least, most, held, placed, is_live in conn.execute(_HOLDS):
                    is_right = held == placed and least <= held <= most if is_live else held == 0
                    if is_live != (status in _HOLDING) or not is_right:
                        self.faults.append(
                            f"books: unit {unit_id} is {status} and holds {held} of {least} to {most},"
                            f" and {placed} by its places"
                        )
                for node_id, device, units in conn.execute(_COUNTED_TWICE):
                    self.faults.append(f"books: {units} all count on device {device} of node {node_id}")
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
                most = group.wanted_gpus if group.scheduling == "gang" else 1
                least = sum(role.min_count for role in group.roles) if group.elastic else most
                if not least <= gpus <= most:
                    self.faults.append(f"ledger: {group_id}/{index} holds {gpus} of {least} to {most}")
            self.faults += [f"ledger: {place} is held twice" for place, n in devices.items() if n > 1]
            if inventory.gpus_held + inventory.gpus_free + inventory.gpus_lost != inventory.gpus_total:
                self.faults.append(f"ledger: the sums are wrong: {inventory}")
            self.samples["ledger"] += 1

    def _look_at_members(self) -> None:
        self.faults += self._members.find_faults()
        self.samples["members"] += 1
