"""The live inventory, and its comparison with the books."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct


class Room(Struct, frozen=True, kw_only=True):
    """Amounts of one node. GPUs by model."""

    gpus: dict[str, int]
    cpus: float
    memory_gib: float


class Holder(Struct, frozen=True, kw_only=True):
    """What one attempt of a group holds on a node. `index`: of an independent member, 0 for a gang."""

    group: str
    name: str
    index: int
    attempt: int
    gpus: list[int]
    cpus: float
    memory_gib: float


class NodeInventory(Struct, frozen=True, kw_only=True):
    """`holders` are those that the caller may know; the sums are over everybody."""

    name: str
    capacity: Room
    free: Room
    free_gpus: list[int]
    lost_gpus: list[int]
    held_gpus: int
    holders: list[Holder]


class Inventory(Struct, frozen=True, kw_only=True):
    """`gpus_total` = held + free + lost."""

    gpus_total: int
    gpus_held: int
    gpus_free: int
    gpus_lost: int
    nodes: list[NodeInventory]


class Finding(Struct, frozen=True, kw_only=True):
    """One place where books, ledger and processes differ."""

    kind: str
    message: str
    node: str
    device: int | None
    group: str | None
    index: int | None
    attempt: int | None


class Audit(Struct, frozen=True, kw_only=True):
    """`releasing`: ends of the last ten seconds that the ledger does not have yet; no drift."""

    is_clean: bool
    audited_at: datetime
    gpus_total: int
    gpus_held: int
    gpus_free: int
    gpus_lost: int
    drift: list[Finding]
    releasing: list[Finding]
    listings: dict[str, datetime]
