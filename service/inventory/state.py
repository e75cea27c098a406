"""What the ledger holds, as values: for rebuilding it and for reading it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

#: (node id, device index)
DeviceKey = tuple[int, int]
#: (unit id, attempt)
AttemptKey = tuple[int, int]


class Answer(StrEnum):
    """Anything but Done means: commit nothing more, load in full, rebuild (R3)."""

    DONE = "Done"
    STALE = "Stale"
    CONFLICT = "Conflict"


@dataclass(frozen=True, slots=True)
class Stamp:
    """The ledger as its writer remembers it: a script that finds another one answers Stale (R2)."""

    incarnation: str
    epoch: int
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """The places that one revision of one attempt adds. Amounts by node: thousandths, MiB."""

    unit_id: int
    attempt: int
    revision: int
    devices: tuple[DeviceKey, ...]
    cpus_milli: Mapping[int, int] = field(default_factory=dict)
    memory_mib: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRoom:
    """CPUs and memory of one node."""

    cpus_milli: int
    memory_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerState:
    """Nodes and devices (model by device), which devices are lost, and who holds what."""

    nodes: Mapping[int, NodeRoom]
    devices: Mapping[DeviceKey, str]
    lost: frozenset[DeviceKey] = frozenset()
    reservations: tuple[Reservation, ...] = ()

    def holders(self) -> dict[DeviceKey, AttemptKey]:
        return {device: (held.unit_id, held.attempt) for held in self.reservations for device in held.devices}

    def free(self) -> frozenset[DeviceKey]:
        """Devices that are neither held nor lost. A held device counts as held, lost or not."""
        return frozenset(self.devices) - self.lost - frozenset(self.holders())
