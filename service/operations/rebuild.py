"""What the ledger should hold, by what PostgreSQL holds (R4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from service.admission.held.holds import taken_by
from service.admission.plan import Admission
from service.admission.world import Configuration, RunningUnit
from service.domain.node import Place
from service.domain.shape import Shape
from service.inventory.state import DeviceKey, LedgerState, NodeRoom, Reservation


def ledger_state(configuration: Configuration, reservations: Iterable[Reservation]) -> LedgerState:
    """The whole ledger: every node and device, what is lost, and who holds what."""
    nodes = configuration.nodes.values()
    return LedgerState(
        nodes={node.id: NodeRoom(cpus_milli=node.cpus_milli, memory_mib=node.memory_mib) for node in nodes},
        devices={(node.id, device.index): device.model for node in nodes for device in node.devices},
        lost=lost_devices(configuration),
        reservations=tuple(reservations),
    )


def lost_devices(configuration: Configuration) -> frozenset[DeviceKey]:
    """Devices on which a process may still sit, or whose node is down (X5)."""
    return frozenset(
        (node.id, device.index)
        for node in configuration.nodes.values()
        for device in node.devices
        if device.is_lost
    )


def has_same_places(one: Configuration, other: Configuration) -> bool:
    """Whether nodes, their room and their devices are the same: if not, the ledger is rebuilt."""
    return one.nodes is other.nodes or _places(one) == _places(other)


def held_by(unit: RunningUnit, shape: Shape) -> Reservation:
    """What a live attempt holds, all revisions of it in one."""
    return named_places((unit.id, unit.attempt, unit.revision), unit.places, shape=shape)


def named_places(key: tuple[int, int, int], places: Iterable[Place], *, shape: Shape) -> Reservation:
    """These places of a (unit, attempt, revision)."""
    unit_id, attempt, revision = key
    taken = taken_by(places, shape)
    return Reservation(
        unit_id=unit_id,
        attempt=attempt,
        revision=revision,
        devices=tuple((each.node_id, device) for each in taken for device in each.devices),
        cpus_milli={each.node_id: each.cpus_milli for each in taken},
        memory_mib={each.node_id: each.memory_mib for each in taken},
    )


def wanted_by(admission: Admission) -> Reservation:
    """What an admission takes: the first revision of its attempt (R1)."""
    return Reservation(
        unit_id=admission.unit_id,
        attempt=admission.attempt,
        revision=1,
        devices=_devices(admission.places),
        cpus_milli=admission.cpus_milli_by_node,
        memory_mib=admission.memory_mib_by_node,
    )


def _devices(places: Iterable[Place]) -> tuple[DeviceKey, ...]:
    return tuple((place.node_id, device) for place in places for device in place.devices)


def _places(configuration: Configuration) -> Mapping[int, tuple[int, int, tuple[tuple[int, str], ...]]]:
    return {
        node.id: (
            node.cpus_milli,
            node.memory_mib,
            tuple((device.index, device.model) for device in node.devices),
        )
        for node in configuration.nodes.values()
    }
