"""One node as it stands: what is held on it and what is free."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.admission.nodes.filters import kinds_of
from service.admission.world import Node

if TYPE_CHECKING:
    from service.admission.nodes.field import Membership


class NodeState:
    """Free amounts of a node. `free` are devices that a member could be given: healthy, not lost,
    not held. CPUs and memory never go below 0, also where a node shrank under what it runs. `rank`: its
    position among all nodes, of which those that lie together follow each other; `path`: its labels at the
    levels of its pool, from the outermost to that above the node."""

    __slots__ = (
        "_counted",
        "device_order",
        "free",
        "free_cpus_milli",
        "free_memory_mib",
        "held",
        "held_cpus_milli",
        "held_memory_mib",
        "is_available",
        "kinds",
        "memberships",
        "node",
        "path",
        "rank",
        "usable",
    )

    def __init__(self, node: Node, *, rank: int, path: tuple[str, ...] = (), is_ideal: bool = False) -> None:
        self.node = node
        self.rank = rank
        self.path = path
        self.is_available = is_ideal or (node.is_ready and not node.is_cordoned)
        self.usable = frozenset(d.index for d in node.devices if is_ideal or (d.is_healthy and not d.is_lost))
        self.kinds = kinds_of(node)
        self.device_order = tuple(
            d.index for d in sorted(node.devices, key=lambda device: (device.memory_mib, device.index))
        )
        #: Devices by how many hold them: never above 1, unless the books were wrong.
        self.held: dict[int, int] = {}
        self.held_cpus_milli = 0
        self.held_memory_mib = 0
        self.memberships: list[Membership] = []
        self.free: frozenset[int] = self.usable
        self.free_cpus_milli = node.cpus_milli
        self.free_memory_mib = node.memory_mib
        #: Of which devices so many are free, and not held: those that were counted last.
        self._counted: tuple[frozenset[int], int, int] | None = None

    def same(self, devices: frozenset[int]) -> frozenset[int]:
        """The same devices, as the object that another membership has for them."""
        return next((each.eligible for each in self.memberships if each.eligible == devices), devices)

    def count(self, devices: frozenset[int]) -> tuple[int, int]:
        """How many of these devices are free, and how many nobody holds."""
        known = self._counted
        if known is None or known[0] is not devices:
            not_held = len(devices - self.held.keys()) if devices else 0
            known = self._counted = devices, len(devices & self.free), not_held
        return known[1], known[2]

    @property
    def tier(self) -> int:
        """Bucket for roles without GPUs: nodes without devices first, then those whose GPUs are
        taken, so that CPUs beside free GPUs are used last."""
        return len(self.free) if self.node.devices else -1

    def hold(self, devices: tuple[int, ...], cpus_milli: int, memory_mib: int) -> None:
        for device in devices:
            self.held[device] = self.held.get(device, 0) + 1
        self.held_cpus_milli += cpus_milli
        self.held_memory_mib += memory_mib

    def release(self, devices: tuple[int, ...], cpus_milli: int, memory_mib: int) -> None:
        for device in devices:
            if self.held[device] == 1:
                del self.held[device]
            else:
                self.held[device] -= 1
        self.held_cpus_milli -= cpus_milli
        self.held_memory_mib -= memory_mib

    def hold_as(self, other: NodeState) -> None:
        """Hold what the same node held in an earlier state."""
        self.held = other.held
        self.held_cpus_milli = other.held_cpus_milli
        self.held_memory_mib = other.held_memory_mib
        self.settle()

    def settle(self) -> None:
        self.free = self.usable - self.held.keys()
        self._counted = None
        self.free_cpus_milli = max(0, self.node.cpus_milli - self.held_cpus_milli)
        self.free_memory_mib = max(0, self.node.memory_mib - self.held_memory_mib)
