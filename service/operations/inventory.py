"""The live inventory for readers: what each node has, what is free, and who holds the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from redis import Redis
from sqlalchemy import Connection, Engine, text

from service.domain.errors import InventoryUnavailable
from service.domain.principal import Principal
from service.domain.unit import group_of, index_of
from service.inventory.compare import free_room
from service.inventory.ledger import Ledger
from service.inventory.state import LedgerState, NodeRoom, Reservation
from service.store.audit_rows import GroupName, load_group_names


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """What one attempt holds on a node. `index`: of an independent member, 0 for a gang."""

    group: GroupName
    index: int
    attempt: int
    devices: tuple[int, ...]
    cpus_milli: int
    memory_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInventory:
    """One node of the ledger. A device that is held counts as held, lost or not. `holders`: those
    that the reader may know; what others hold is in the sums only."""

    name: str
    models: Mapping[int, str]
    capacity: NodeRoom
    free: NodeRoom
    free_devices: tuple[int, ...]
    lost_devices: tuple[int, ...]
    held_devices: int
    holders: tuple[Holder, ...]


def read_inventory(engine: Engine, redis: Redis, *, principal: Principal) -> tuple[NodeInventory, ...]:
    """Nodes by name. Raises InventoryUnavailable while there is no ledger, and redis' errors."""
    ledger = Ledger(redis).read()
    if ledger is None:
        raise InventoryUnavailable("Redis holds no inventory yet; the leader is about to rebuild it.")
    with engine.connect() as conn:
        names = _node_names(conn)
        groups = load_group_names(conn, {group_of(held.unit_id) for held in ledger.reservations})
    visible = {
        group_id: group
        for group_id, group in groups.items()
        if principal.may_see(tenant=group.tenant, owner=group.owner)
    }
    found = _Reading(ledger, visible)
    nodes = [found.node(node_id, names.get(node_id, f"node {node_id}")) for node_id in ledger.nodes]
    return tuple(sorted(nodes, key=lambda node: node.name))


class _Reading:
    """A ledger, taken apart by node."""

    def __init__(self, ledger: LedgerState, groups: Mapping[int, GroupName]) -> None:
        self._ledger = ledger
        self._groups = groups
        self._room = free_room(ledger)
        self._held, self._free = frozenset(ledger.holders()), ledger.free()
        self._models: dict[int, dict[int, str]] = {node_id: {} for node_id in ledger.nodes}
        for (node_id, device), model in sorted(ledger.devices.items()):
            self._models.setdefault(node_id, {})[device] = model
        self._by_node: dict[int, list[Reservation]] = {}
        for held in ledger.reservations:
            touched = (
                {node_id for node_id, _ in held.devices} | held.cpus_milli.keys() | held.memory_mib.keys()
            )
            for node_id in touched:
                self._by_node.setdefault(node_id, []).append(held)

    def node(self, node_id: int, name: str) -> NodeInventory:
        models = self._models[node_id]
        held = [device for device in models if (node_id, device) in self._held]
        free = tuple(device for device in models if (node_id, device) in self._free)
        return NodeInventory(
            name=name,
            models=models,
            capacity=self._ledger.nodes[node_id],
            free=self._room[node_id],
            free_devices=free,
            lost_devices=tuple(device for device in models if device not in free and device not in held),
            held_devices=len(held),
            holders=tuple(
                self._holder(each, node_id)
                for each in self._by_node.get(node_id, ())
                if group_of(each.unit_id) in self._groups
            ),
        )

    def _holder(self, held: Reservation, node_id: int) -> Holder:
        return Holder(
            group=self._groups[group_of(held.unit_id)],
            index=index_of(held.unit_id),
            attempt=held.attempt,
            devices=tuple(device for node, device in held.devices if node == node_id),
            cpus_milli=held.cpus_milli.get(node_id, 0),
            memory_mib=held.memory_mib.get(node_id, 0),
        )


def _node_names(conn: Connection) -> dict[int, str]:
    return {row.id: row.name for row in conn.execute(text("SELECT id, name FROM nodes"))}
