"""Who sits where: found by node, and counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from service.admission.world import Configuration, Node, RunningUnit


class Occupancy:
    """GPUs of nodes and who holds them. `up_gpus`: of nodes that are ready; `held_gpus`: wherever;
    `torn_gpus`: free ones of ready nodes on which others are held."""

    def __init__(self) -> None:
        self.up_gpus = self.held_gpus = self.torn_gpus = 0
        self._gpus: dict[int, int] = {}
        self._held: dict[int, int] = {}
        self._units: dict[int, set[int]] = {}
        self._seats: dict[int, dict[int, int]] = {}

    def configure(self, configuration: Configuration) -> None:
        self._gpus = {node_id: _ready_gpus(node) for node_id, node in configuration.nodes.items()}
        self._count()

    def turn(self, nodes: Mapping[int, Node], node_ids: Iterable[int]) -> None:
        """These nodes are other than they were."""
        for node_id in node_ids:
            self._gpus[node_id] = _ready_gpus(nodes[node_id])
        self._count()

    def _count(self) -> None:
        self.up_gpus = sum(self._gpus.values())
        self.torn_gpus = sum(self._torn(node_id) for node_id in self._held)

    def seat(self, unit: RunningUnit) -> None:
        """It holds these places, and none that it had before."""
        self.leave(unit.id)
        seats: dict[int, int] = {}
        for place in unit.places:
            seats[place.node_id] = seats.get(place.node_id, 0) + len(place.devices)
        self._seats[unit.id] = seats
        for node_id, gpus in seats.items():
            self._units.setdefault(node_id, set()).add(unit.id)
            self._hold(node_id, gpus)

    def leave(self, unit_id: int) -> None:
        for node_id, gpus in self._seats.pop(unit_id, {}).items():
            self._units[node_id].discard(unit_id)
            self._hold(node_id, -gpus)

    def units_on(self, node_ids: Iterable[int]) -> list[int]:
        """In the order of their ids."""
        return sorted({unit_id for node_id in node_ids for unit_id in self._units.get(node_id, ())})

    def _hold(self, node_id: int, gpus: int) -> None:
        before = self._torn(node_id)
        self._held[node_id] = self._held.get(node_id, 0) + gpus
        self.held_gpus += gpus
        self.torn_gpus += self._torn(node_id) - before

    def _torn(self, node_id: int) -> int:
        held = self._held.get(node_id, 0)
        return max(0, self._gpus.get(node_id, 0) - held) if held else 0


def _ready_gpus(node: Node) -> int:
    return sum(device.is_healthy and not device.is_lost for device in node.devices) if node.is_ready else 0
