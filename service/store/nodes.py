"""Nodes as readers and operators see them. What a launcher says of a node is its dispatcher's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, text


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDevice:
    """One GPU. `lost_note` says which unit could not be ended there."""

    index: int
    model: str
    memory_mib: int
    is_healthy: bool
    is_lost: bool
    is_held: bool
    lost_note: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A node with its pool. `is_reachable` False: the pool's launcher does not answer."""

    id: int
    name: str
    pool_id: int
    pool: str
    launcher: str
    is_reachable: bool
    cpus_milli: int
    memory_mib: int
    labels: Mapping[str, str]
    is_ready: bool
    is_cordoned: bool
    drain_at: datetime | None
    devices: tuple[NodeDevice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFilter:
    """None: whatever. `model`: nodes that have a GPU of this model."""

    name: str | None = None
    pool: str | None = None
    model: str | None = None
    is_ready: bool | None = None
    is_cordoned: bool | None = None


_NODES = text("""
    SELECT n.id, n.name, n.pool_id, p.name AS pool, p.launcher, p.unreachable_at IS NULL AS is_reachable,
           n.cpus_milli, n.memory_mib, n.labels, n.is_ready, n.is_cordoned, n.drain_at
    FROM nodes n JOIN pools p ON p.id = n.pool_id
    WHERE (CAST(:name AS text) IS NULL OR n.name = :name)
      AND (CAST(:pool AS text) IS NULL OR p.name = :pool)
      AND (CAST(:is_ready AS boolean) IS NULL OR n.is_ready = :is_ready)
      AND (CAST(:is_cordoned AS boolean) IS NULL OR n.is_cordoned = :is_cordoned)
      AND (CAST(:model AS text) IS NULL
           OR EXISTS (SELECT FROM devices d WHERE d.node_id = n.id AND d.model = :model))
    ORDER BY n.name
""")

_DEVICES = text("""
    SELECT d.node_id, d.device, d.model, d.memory_mib, d.is_healthy, d.lost_at IS NOT NULL AS is_lost,
           d.lost_note, h.unit_id IS NOT NULL AS is_held
    FROM devices d LEFT JOIN held_devices h ON h.node_id = d.node_id AND h.device = d.device
    WHERE d.node_id = ANY(CAST(:ids AS bigint[])) ORDER BY d.node_id, d.device
""")


def list_nodes(conn: Connection, wanted: NodeFilter) -> tuple[NodeView, ...]:
    """Nodes by name, with their devices."""
    names = ("name", "pool", "model", "is_ready", "is_cordoned")
    rows = conn.execute(_NODES, {name: getattr(wanted, name) for name in names}).mappings().all()
    devices = _devices(conn, [row["id"] for row in rows])
    return tuple(NodeView(**row, devices=tuple(devices.get(row["id"], ()))) for row in rows)


def find_node(conn: Connection, name: str) -> NodeView | None:
    found = list_nodes(conn, NodeFilter(name=name))
    return found[0] if found else None


def set_cordon(conn: Connection, node_id: int, *, is_cordoned: bool, drain_at: datetime | None) -> None:
    """Only these two columns are the operator's."""
    conn.execute(
        text("UPDATE nodes SET is_cordoned = :is_cordoned, drain_at = :drain_at WHERE id = :id"),
        {"id": node_id, "is_cordoned": is_cordoned, "drain_at": drain_at},
    )


def _devices(conn: Connection, ids: Sequence[int]) -> dict[int, list[NodeDevice]]:
    devices: dict[int, list[NodeDevice]] = {}
    for row in conn.execute(_DEVICES, {"ids": list(ids)}).mappings():
        devices.setdefault(row["node_id"], []).append(_device(row))
    return devices


def _device(row: RowMapping) -> NodeDevice:
    values: dict[str, Any] = {name: value for name, value in row.items() if name not in ("node_id", "device")}
    return NodeDevice(index=row["device"], **values)
