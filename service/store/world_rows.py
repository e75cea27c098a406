"""The rows that a World is made of, as its values: configuration, waiting and running units."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, text

from service.admission.world import Configuration, Device, Node, PendingUnit, Pool, Queue, RunningUnit
from service.domain.queue import Order, Quota, Stop
from service.domain.status import LIVE, Status
from service.store.places import places_of

_UNITS = """
SELECT u.id, u.group_id, g.public_id, g.queue_id, g.shape_id, g.priority, g.submitted_at,
  u.first_index, u.last_index, u.status, u.attempt, u.version, u.is_held, u.backoff_until,
  u.failed_nodes, g.time_limit_seconds, g.start_timeout_seconds,
  a.attempt AS live_attempt, a.revision, a.places, a.usage, a.time_limit_at
FROM units u
JOIN groups g ON g.id = u.group_id
LEFT JOIN attempts a ON a.unit_id = u.id
"""
_NAMED = _UNITS + "WHERE u.id = ANY(:ids)"
_ALL = _UNITS + "WHERE u.ended_at IS NULL"
_LIVE = _UNITS + "WHERE a.unit_id IS NOT NULL"

Units = tuple[dict[int, PendingUnit], dict[int, RunningUnit]]


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


def read_units(conn: Connection, ids: Sequence[int]) -> Units:
    """The present state of these units, as far as they wait or hold places."""
    return _units(conn.execute(text(_NAMED), {"ids": list(ids)}).all())


def read_all_units(conn: Connection) -> Units:
    """Every unit that waits or holds places."""
    return _units(conn.execute(text(_ALL)).all())


def read_live_units(conn: Connection) -> dict[int, RunningUnit]:
    """Every unit that holds places."""
    return _units(conn.execute(text(_LIVE)).all())[1]


def _units(rows: Sequence[Row[Any]]) -> Units:
    waiting = {row.id: _pending(row) for row in rows if row.status == Status.PENDING.value}
    running = {row.id: _running(row) for row in rows if row.status in LIVE}
    return waiting, running


def _pending(row: Row[Any]) -> PendingUnit:
    return PendingUnit(
        id=row.id,
        group_id=row.group_id,
        public_id=str(row.public_id),
        queue_id=row.queue_id,
        shape_id=row.shape_id,
        priority=row.priority,
        submitted_at=row.submitted_at,
        first_index=row.first_index,
        last_index=row.last_index,
        attempt=row.attempt,
        version=row.version,
        is_held=row.is_held,
        backoff_until=row.backoff_until,
        avoided_nodes=frozenset(row.failed_nodes),
        time_limit_seconds=row.time_limit_seconds,
        start_timeout_seconds=row.start_timeout_seconds,
    )


def _running(row: Row[Any]) -> RunningUnit:
    return RunningUnit(
        id=row.id,
        group_id=row.group_id,
        public_id=str(row.public_id),
        queue_id=row.queue_id,
        shape_id=row.shape_id,
        attempt=row.live_attempt,
        revision=row.revision,
        places=places_of(row.places),
        usage=row.usage,
        time_limit_at=row.time_limit_at,
    )


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
