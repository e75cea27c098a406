"""Pools, nodes and devices as their dispatcher keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from psycopg.types.json import Jsonb
from sqlalchemy import Connection, text

from service.store.config import raise_config_version
from service.store.copying import copy_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRow:
    device: int
    model: str
    memory_mib: int
    uuid: str | None
    is_healthy: bool
    lost_at: datetime | None = None
    lost_note: str | None = None
    lost_boot_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """`labels` hold `host`, the node's own name."""

    id: int
    name: str
    cpus_milli: int
    memory_mib: int
    labels: Mapping[str, str]
    is_ready: bool
    is_cordoned: bool
    drain_at: datetime | None
    boot_id: str | None
    devices: Mapping[int, DeviceRow]

    @property
    def lost_devices(self) -> frozenset[int]:
        return frozenset(index for index, device in self.devices.items() if device.lost_at is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeValues:
    """What a launcher says of a node; everything else about it is the operator's."""

    name: str
    cpus_milli: int
    memory_mib: int
    labels: Mapping[str, str]
    is_ready: bool
    boot_id: str | None


def ensure_pool(
    conn: Connection, name: str, *, launcher: str, levels: Sequence[str], can_resize: bool = False
) -> int:
    """The id of the pool, made if it is not there. The configuration is a new one if it changed."""
    row = conn.execute(
        text("SELECT id, launcher, levels, can_resize FROM pools WHERE name = :name"), {"name": name}
    ).one_or_none()
    known = None if row is None else (row.launcher, list(row.levels), row.can_resize)
    if row is not None and known == (launcher, list(levels), can_resize):
        return int(row.id)
    pool_id: int = conn.execute(
        text(
            "INSERT INTO pools (name, launcher, levels, can_resize)"
            " VALUES (:name, :launcher, :levels, :can_resize)"
            " ON CONFLICT (name) DO UPDATE SET launcher = EXCLUDED.launcher, levels = EXCLUDED.levels,"
            " can_resize = EXCLUDED.can_resize RETURNING id"
        ),
        {"name": name, "launcher": launcher, "levels": list(levels), "can_resize": can_resize},
    ).scalar_one()
    raise_config_version(conn)
    return pool_id


def load_nodes(conn: Connection, pool_id: int) -> dict[str, NodeRow]:
    """The nodes of a pool by name, with their devices."""
    rows = conn.execute(
        text(
            "SELECT id, name, cpus_milli, memory_mib, labels, is_ready, is_cordoned, drain_at, boot_id"
            " FROM nodes WHERE pool_id = :pool_id ORDER BY id"
        ),
        {"pool_id": pool_id},
    ).all()
    devices: dict[int, dict[int, DeviceRow]] = {row.id: {} for row in rows}
    for row in conn.execute(
        text("SELECT * FROM devices WHERE node_id = ANY(CAST(:ids AS bigint[])) ORDER BY node_id, device"),
        {"ids": list(devices)},
    ):
        values = dict(row._mapping)
        del values["node_id"]
        devices[row.node_id][row.device] = DeviceRow(**values)
    return {row.name: NodeRow(**row._mapping, devices=devices[row.id]) for row in rows}


def find_foreign_names(conn: Connection, pool_id: int, *, names: Iterable[str]) -> list[str]:
    """Which of these names are nodes of another pool."""
    return list(
        conn.execute(
            text("SELECT name FROM nodes WHERE name = ANY(CAST(:names AS text[])) AND pool_id <> :pool_id"),
            {"names": list(names), "pool_id": pool_id},
        ).scalars()
    )


def add_nodes(
    conn: Connection, pool_id: int, *, nodes: Sequence[NodeValues], now: datetime
) -> dict[str, int]:
    """Add nodes without devices; ids by name."""
    columns = (
        "pool_id", "name", "cpus_milli", "memory_mib", "labels", "is_ready", "is_cordoned", "boot_id",
        "updated_at",
    )  # fmt: skip
    copy_rows(
        conn,
        "nodes",
        columns=columns,
        rows=(
            (
                pool_id, node.name, node.cpus_milli, node.memory_mib, Jsonb(dict(node.labels)),
                node.is_ready, False, node.boot_id, now,
            )
            for node in nodes
        ),
    )  # fmt: skip
    rows = conn.execute(
        text("SELECT name, id FROM nodes WHERE name = ANY(CAST(:names AS text[]))"),
        {"names": [node.name for node in nodes]},
    )
    return {row.name: row.id for row in rows}


def set_node(conn: Connection, node_id: int, *, values: NodeValues, now: datetime) -> None:
    """Nodes change rarely and by ones: a statement each."""
    conn.execute(
        text(
            "UPDATE nodes SET cpus_milli = :cpus_milli, memory_mib = :memory_mib, labels = :labels,"
            " is_ready = :is_ready, boot_id = :boot_id, updated_at = :now WHERE id = :id"
        ),
        {
            "id": node_id,
            "cpus_milli": values.cpus_milli,
            "memory_mib": values.memory_mib,
            "labels": Jsonb(dict(values.labels)),
            "is_ready": values.is_ready,
            "boot_id": values.boot_id,
            "now": now,
        },
    )


def set_devices(conn: Connection, node_id: int, *, devices: Sequence[DeviceRow]) -> None:
    """Write what the launcher says of devices, new ones included. What is lost stays lost."""
    conn.execute(
        _SET_DEVICES,
        {
            "node_id": node_id,
            "devices": [device.device for device in devices],
            "models": [device.model for device in devices],
            "memory": [device.memory_mib for device in devices],
            "uuids": [device.uuid for device in devices],
            "healthy": [device.is_healthy for device in devices],
        },
    )


def set_devices_lost(
    conn: Connection, devices: Sequence[tuple[int, int, str]], *, now: datetime
) -> list[tuple[int, int]]:
    """Mark (node, device, note): something that could not be ended may still sit there (X5). Gives
    those that were not lost before. The note names who, as unit/attempt/generation."""
    rows = conn.execute(
        _SET_LOST,
        {
            "nodes": [node for node, _, _ in devices],
            "devices": [device for _, device, _ in devices],
            "notes": [note for _, _, note in devices],
            "now": now,
        },
    )
    return [(row.node_id, row.device) for row in rows]


def list_lost_devices(conn: Connection, pool_id: int) -> frozenset[tuple[int, int]]:
    """(node, device) of every lost device of the pool."""
    rows = conn.execute(
        text(
            "SELECT d.node_id, d.device FROM devices d JOIN nodes n ON n.id = d.node_id"
            " WHERE n.pool_id = :pool_id AND d.lost_at IS NOT NULL"
        ),
        {"pool_id": pool_id},
    )
    return frozenset((row.node_id, row.device) for row in rows)


def set_devices_found(conn: Connection, devices: Sequence[tuple[int, int]]) -> None:
    """What sat there is gone."""
    conn.execute(
        text(
            "UPDATE devices SET lost_at = NULL, lost_note = NULL, lost_boot_id = NULL"
            " WHERE (node_id, device) IN (SELECT * FROM unnest(CAST(:nodes AS bigint[]),"
            " CAST(:devices AS int[])))"
        ),
        {"nodes": [node for node, _ in devices], "devices": [device for _, device in devices]},
    )


def set_unreachable(conn: Connection, pool_id: int, *, at: datetime | None) -> None:
    conn.execute(
        text("UPDATE pools SET unreachable_at = :at WHERE id = :pool_id"), {"at": at, "pool_id": pool_id}
    )


def find_unreachable(conn: Connection, pool_id: int) -> datetime | None:
    """Since when the pool's launcher has not answered."""
    at: datetime | None = conn.execute(
        text("SELECT unreachable_at FROM pools WHERE id = :pool_id"), {"pool_id": pool_id}
    ).scalar_one()
    return at


def reported(device: DeviceRow) -> DeviceRow:
    """The device without what only we know of it: for comparing with a launcher's report."""
    return replace(device, lost_at=None, lost_note=None, lost_boot_id=None)


_SET_DEVICES = text("""
    INSERT INTO devices (node_id, device, model, memory_mib, uuid, is_healthy)
    SELECT :node_id, v.* FROM unnest(CAST(:devices AS int[]), CAST(:models AS text[]),
        CAST(:memory AS bigint[]), CAST(:uuids AS text[]), CAST(:healthy AS boolean[])) AS v
    ON CONFLICT (node_id, device) DO UPDATE
    SET model = EXCLUDED.model, memory_mib = EXCLUDED.memory_mib, uuid = EXCLUDED.uuid,
        is_healthy = EXCLUDED.is_healthy
""")

_SET_LOST = text("""
    UPDATE devices d
    SET lost_at = CAST(:now AS timestamptz), lost_note = v.note, lost_boot_id = n.boot_id
    FROM unnest(CAST(:nodes AS bigint[]), CAST(:devices AS int[]), CAST(:notes AS text[]))
         AS v (node_id, device, note), nodes n
    WHERE d.node_id = v.node_id AND d.device = v.device AND n.id = v.node_id AND d.lost_at IS NULL
    RETURNING d.node_id, d.device
""")
