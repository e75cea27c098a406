"""The rows that a World is made of, as its values: configuration, waiting and running units."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sqlalchemy import Connection, Row, text

from service.admission.world import Configuration, Device, Node, Pool, Queue, RunningUnit
from service.domain.queue import Order, Quota, Stop
from service.store.unit_rows import (
    Units,
    living_statement,
    pending_units,
    running_units,
    waiting_statement,
)


def read_configuration(conn: Connection) -> Configuration:
    """Everything that `config.version` counts, with that version (L2)."""
    version = conn.execute(text("SELECT version FROM config WHERE id = 1")).scalar_one()
    pools = conn.execute(text("SELECT id, name, levels FROM pools"))
    return Configuration(
        version=version,
        queues=_queues(conn),
        pools={row.id: Pool(id=row.id, name=row.name, levels=tuple(row.levels)) for row in pools},
        nodes=_nodes(conn),
    )


def read_all_units(conn: Connection) -> Units:
    """Every unit that waits or holds places."""
    waiting = conn.exec_driver_sql(waiting_statement())
    return pending_units(tuple(row) for row in waiting), read_live_units(conn)


def read_live_units(conn: Connection) -> dict[int, RunningUnit]:
    """Every unit that holds places."""
    return running_units(tuple(row) for row in conn.exec_driver_sql(living_statement()))


def _queues(conn: Connection) -> dict[int, Queue]:
    nominal: dict[int, dict[str, int]] = defaultdict(dict)
    limits: dict[int, dict[str, int]] = defaultdict(dict)
    for row in conn.execute(text("SELECT queue_id, resource, nominal, hard_limit FROM quotas")):
        if row.nominal is not None:
            nominal[row.queue_id][row.resource] = row.nominal
        if row.hard_limit is not None:
            limits[row.queue_id][row.resource] = row.hard_limit
    statement = "SELECT id, name, queue_order, stop, has_quota FROM queues WHERE deleted_at IS NULL"
    rows = conn.execute(text(statement))
    return {
        row.id: Queue(
            id=row.id,
            name=row.name,
            order=Order(row.queue_order),
            stop=Stop(row.stop),
            quota=Quota(nominal=nominal[row.id] if row.has_quota else None, limit=limits.get(row.id)),
        )
        for row in rows
    }


def _nodes(conn: Connection) -> dict[int, Node]:
    devices: dict[int, list[Row[Any]]] = defaultdict(list)
    statement = "SELECT node_id, device, model, memory_mib, is_healthy, lost_at FROM devices"
    for row in conn.execute(text(statement)):
        devices[row.node_id].append(row)
    statement = "SELECT id, name, pool_id, cpus_milli, memory_mib, labels, is_ready, is_cordoned FROM nodes"
    return {row.id: _node(row, devices[row.id]) for row in conn.execute(text(statement))}


def _node(row: Row[Any], devices: list[Row[Any]]) -> Node:
    return Node(
        id=row.id,
        name=row.name,
        pool_id=row.pool_id,
        cpus_milli=row.cpus_milli,
        memory_mib=row.memory_mib,
        labels=row.labels,
        devices=tuple(
            Device(
                index=device.device,
                model=device.model,
                memory_mib=device.memory_mib,
                is_healthy=device.is_healthy,
                # Of a node that is down nobody knows what still runs there.
                is_lost=device.lost_at is not None or not row.is_ready,
            )
            for device in sorted(devices, key=lambda device: int(device.device))
        ),
        is_ready=row.is_ready,
        is_cordoned=row.is_cordoned,
    )
