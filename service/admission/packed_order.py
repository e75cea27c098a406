"""The order of a queue as it is published: columns, for a cycle may list as much as waits."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Waiting(NamedTuple):
    """One entry of a queue's order: a waiting row, at its place. `verdict` indexes
    `QueueVerdict.verdicts`; `is_eligible` False has no position (held, backing off, stopped queue)."""

    group_id: int
    unit_id: int
    verdict: int
    is_eligible: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedOrder:
    """Three arrays of 64-bit integers and one byte per row, each in the order of the rows."""

    group_ids: bytes = b""
    unit_ids: bytes = b""
    verdict_of: bytes = b""
    is_eligible: bytes = b""

    @staticmethod
    def of(rows: Iterable[Waiting]) -> PackedOrder:
        listed = list(rows)
        return PackedOrder(
            group_ids=array("q", (row.group_id for row in listed)).tobytes(),
            unit_ids=array("q", (row.unit_id for row in listed)).tobytes(),
            verdict_of=array("q", (row.verdict for row in listed)).tobytes(),
            is_eligible=bytes(row.is_eligible for row in listed),
        )

    def __len__(self) -> int:
        return len(self.is_eligible)

    def __iter__(self) -> Iterator[Waiting]:
        rows = zip(
            unpacked(self.group_ids),
            unpacked(self.unit_ids),
            unpacked(self.verdict_of),
            self.is_eligible,
            strict=True,
        )
        return (Waiting(group, unit, verdict, bool(eligible)) for group, unit, verdict, eligible in rows)


def unpacked(column: bytes) -> array[int]:
    """The numbers of a packed column."""
    values = array("q")
    values.frombytes(column)
    return values
