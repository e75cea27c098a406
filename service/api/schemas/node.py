"""Nodes on the wire."""

from __future__ import annotations

from datetime import datetime

from service.store.nodes import NodeDevice, NodeView
from service.wire.values import AnswerStruct, Duration, RequestStruct, number_of


class DrainRequest(RequestStruct, frozen=True, kw_only=True):
    """`deadline`: so long from now; null: never."""

    deadline: Duration | None = None


class DeviceAnswer(AnswerStruct, frozen=True, kw_only=True):
    """One GPU. Lost: something that could not be ended may still sit there; `lost_note` (for
    operators) says who."""

    index: int
    model: str
    memory_gib: float
    is_healthy: bool
    is_lost: bool
    is_held: bool
    lost_note: str | None


class NodeAnswer(AnswerStruct, frozen=True, kw_only=True):
    """A node. `is_simulated`: its members live on a clock, not on a machine. `is_reachable`: its
    launcher answers. `drain_at`: when units with a member here are evicted."""

    name: str
    pool: str
    launcher: str
    is_simulated: bool
    is_reachable: bool
    is_ready: bool
    is_cordoned: bool
    drain_at: datetime | None
    labels: dict[str, str]
    cpus: float
    memory_gib: float
    gpus: list[DeviceAnswer]
    gpus_held: int


class NodeList(AnswerStruct, frozen=True, kw_only=True):
    nodes: list[NodeAnswer]


def node_answer(node: NodeView, *, is_operator: bool) -> NodeAnswer:
    return NodeAnswer(
        name=node.name,
        pool=node.pool,
        launcher=node.launcher,
        is_simulated=node.launcher == "simulated",
        is_reachable=node.is_reachable,
        is_ready=node.is_ready,
        is_cordoned=node.is_cordoned,
        drain_at=node.drain_at,
        labels=dict(node.labels),
        cpus=number_of(node.cpus_milli, 1000),
        memory_gib=number_of(node.memory_mib, 1024),
        gpus=[_device(device, is_operator=is_operator) for device in node.devices],
        gpus_held=sum(device.is_held for device in node.devices),
    )


def _device(device: NodeDevice, *, is_operator: bool) -> DeviceAnswer:
    return DeviceAnswer(
        index=device.index,
        model=device.model,
        memory_gib=number_of(device.memory_mib, 1024),
        is_healthy=device.is_healthy,
        is_lost=device.is_lost,
        is_held=device.is_held,
        lost_note=device.lost_note if is_operator else None,
    )
