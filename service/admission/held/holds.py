"""What a unit's places take from each node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from service.domain.node import Place
from service.domain.shape import Shape


class Taken(NamedTuple):
    """Devices, CPUs and memory taken on one node."""

    node_id: int
    devices: tuple[int, ...]
    cpus_milli: int
    memory_mib: int


def taken_by(places: Iterable[Place], shape: Shape) -> tuple[Taken, ...]:
    """Amounts by node, in the order of node ids."""
    amounts: dict[int, tuple[list[int], int, int]] = {}
    for place in places:
        requests = shape.roles[place.role].requests
        devices, cpus_milli, memory_mib = amounts.get(place.node_id, ([], 0, 0))
        devices.extend(place.devices)
        amounts[place.node_id] = (
            devices,
            cpus_milli + requests.cpus_milli,
            memory_mib + requests.memory_mib,
        )
    return tuple(
        Taken(node_id, tuple(sorted(devices)), cpus_milli, memory_mib)
        for node_id, (devices, cpus_milli, memory_mib) in sorted(amounts.items())
    )
