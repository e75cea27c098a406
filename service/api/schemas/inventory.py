"""The inventory and its audit on the wire."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from service.domain.unit import index_of
from service.inventory.compare import DriftKind
from service.operations.audit import Audit, Finding
from service.operations.inventory import Holder, NodeInventory
from service.wire.values import AnswerStruct, number_of


class RoomAnswer(AnswerStruct, frozen=True, kw_only=True):
    """Amounts of one node, or of all. GPUs by model."""

    gpus: dict[str, int]
    cpus: float
    memory_gib: float


class HolderAnswer(AnswerStruct, frozen=True, kw_only=True):
    """What one attempt of a group holds on the node. `index`: of an independent member; 0 for a gang."""

    group: UUID
    name: str
    index: int
    attempt: int
    gpus: list[int]
    cpus: float
    memory_gib: float


class NodeInventoryAnswer(AnswerStruct, frozen=True, kw_only=True):
    """One node. `held` and `free` are sums over everybody; `holders` are those that the caller may
    know. `lost_gpus`: something that could not be ended may still sit there."""

    name: str
    capacity: RoomAnswer
    free: RoomAnswer
    free_gpus: list[int]
    lost_gpus: list[int]
    held_gpus: int
    holders: list[HolderAnswer]


class InventoryAnswer(AnswerStruct, frozen=True, kw_only=True):
    """The live inventory. `gpus_total` = held + free + lost."""

    gpus_total: int
    gpus_held: int
    gpus_free: int
    gpus_lost: int
    nodes: list[NodeInventoryAnswer]


class FindingAnswer(AnswerStruct, frozen=True, kw_only=True):
    """One place where books, ledger and processes differ, with its holder as far as it has one."""

    kind: DriftKind
    message: str
    node: str
    device: int | None
    group: UUID | None
    index: int | None
    attempt: int | None


class AuditAnswer(AnswerStruct, frozen=True, kw_only=True):
    """Clean means that nothing drifts. `releasing`: ends that were committed in the last ten seconds
    and that the leader has yet to apply to the ledger. `listings`: when each pool's launcher last
    said what runs."""

    is_clean: bool
    audited_at: datetime
    gpus_total: int
    gpus_held: int
    gpus_free: int
    gpus_lost: int
    drift: list[FindingAnswer]
    releasing: list[FindingAnswer]
    listings: dict[str, datetime]


def inventory_answer(nodes: Iterable[NodeInventory]) -> InventoryAnswer:
    shown = list(nodes)
    return InventoryAnswer(
        gpus_total=sum(len(node.models) for node in shown),
        gpus_held=sum(node.held_devices for node in shown),
        gpus_free=sum(len(node.free_devices) for node in shown),
        gpus_lost=sum(len(node.lost_devices) for node in shown),
        nodes=[_node(node) for node in shown],
    )


def audit_answer(audit: Audit) -> AuditAnswer:
    return AuditAnswer(
        is_clean=audit.is_clean,
        audited_at=audit.at,
        gpus_total=audit.devices,
        gpus_held=audit.held,
        gpus_free=audit.free,
        gpus_lost=audit.lost,
        drift=[_finding(finding) for finding in audit.drift],
        releasing=[_finding(finding) for finding in audit.releasing],
        listings=dict(audit.listings),
    )


def _node(node: NodeInventory) -> NodeInventoryAnswer:
    return NodeInventoryAnswer(
        name=node.name,
        capacity=RoomAnswer(
            gpus=_by_model(node, node.models),
            cpus=number_of(node.capacity.cpus_milli, 1000),
            memory_gib=number_of(node.capacity.memory_mib, 1024),
        ),
        free=RoomAnswer(
            gpus=_by_model(node, node.free_devices),
            cpus=number_of(node.free.cpus_milli, 1000),
            memory_gib=number_of(node.free.memory_mib, 1024),
        ),
        free_gpus=list(node.free_devices),
        lost_gpus=list(node.lost_devices),
        held_gpus=node.held_devices,
        holders=[_holder(holder) for holder in node.holders],
    )


def _holder(holder: Holder) -> HolderAnswer:
    return HolderAnswer(
        group=holder.group.public_id,
        name=holder.group.name,
        index=holder.index,
        attempt=holder.attempt,
        gpus=list(holder.devices),
        cpus=number_of(holder.cpus_milli, 1000),
        memory_gib=number_of(holder.memory_mib, 1024),
    )


def _by_model(node: NodeInventory, devices: Iterable[int]) -> dict[str, int]:
    """How many of `devices` are of each model that the node has, zeros too."""
    counts = dict.fromkeys(sorted(set(node.models.values())), 0)
    for device in devices:
        counts[node.models[device]] += 1
    return counts


def _finding(finding: Finding) -> FindingAnswer:
    holder = finding.difference.holder
    return FindingAnswer(
        kind=finding.difference.kind,
        message=finding.message,
        node=finding.node,
        device=finding.difference.device,
        group=finding.group.public_id if finding.group else None,
        index=index_of(holder[0]) if holder else None,
        attempt=holder[1] if holder else None,
    )
