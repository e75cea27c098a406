"""The rows that a World is made of, as its values: configuration, waiting and running units."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, text

from service.admission.world import Cohort, Configuration, Device, Node, Pool, Queue, RunningUnit
from service.domain.queue import Order, QueuePolicy, Quota, Stop
from service.domain.scheduling import SchedulingSettings
from service.store.unit_rows import (
    Units,
    living_statement,
    pending_units,
    running_units,
    waiting_statement,
)


def read_configuration(conn: Connection, *, before: Configuration | None = None) -> Configuration:
    """Everything that `config.version` counts, with that version (L2). `before`: as read earlier; if nothing
    about nodes has changed since, its very nodes and pools are taken over."""
    statement = text(
        "SELECT version, version - with_same_nodes AS of_nodes, scheduling FROM config WHERE id = 1"
    )
    version, nodes_version, scheduling = conn.execute(statement).one()
    is_same = before is not None and before.nodes_version == nodes_version
    return Configuration(
        version=version,
        nodes_version=nodes_version,
        scheduling=msgspec.convert(scheduling, SchedulingSettings),
        queues=_queues(conn),
        cohorts=_cohorts(conn),
        pools=before.pools if before is not None and is_same else _pools(conn),
        nodes=before.nodes if before is not None and is_same else _nodes(conn),
    )


def read_tree(conn: Connection) -> Configuration:
    """Queues and cohorts alone, without a version: for answers, not for decisions."""
    return Configuration(version=0, queues=_queues(conn), cohorts=_cohorts(conn), pools={}, nodes={})


def read_capacity(conn: Connection) -> dict[str, int]:
    """Devices by model."""
    rows = conn.execute(text("SELECT model, count(*) AS devices FROM devices GROUP BY model"))
    return {row.model: row.devices for row in rows}


def read_all_units(conn: Connection) -> Units:
    """Every unit that waits or holds places."""
    waiting = conn.exec_driver_sql(waiting_statement())
    return pending_units(tuple(row) for row in waiting), read_live_units(conn)


def read_live_units(conn: Connection) -> dict[int, RunningUnit]:
    """Every unit that holds places."""
    return running_units(tuple(row) for row in conn.exec_driver_sql(living_statement()))


def _queues(conn: Connection) -> dict[int, Queue]:
    quotas: dict[int, list[Row[Any]]] = defaultdict(list)
    statement = "SELECT queue_id, resource, nominal, hard_limit, borrowing, lending FROM quotas"
    for row in conn.execute(text(statement)):
        quotas[row.queue_id].append(row)
    statement = (
        "SELECT id, name, cohort_id, queue_order, stop, has_quota, policy FROM queues"
        " WHERE deleted_at IS NULL"
    )
    rows = conn.execute(text(statement))
    return {
        row.id: Queue(
            id=row.id,
            name=row.name,
            cohort_id=row.cohort_id,
            order=Order(row.queue_order),
            stop=Stop(row.stop),
            quota=Quota(
                nominal=_amounts(quotas[row.id], "nominal") if row.has_quota else None,
                limit=_amounts(quotas[row.id], "hard_limit") or None,
                borrowing=_amounts(quotas[row.id], "borrowing"),
                lending=_amounts(quotas[row.id], "lending"),
            ),
            policy=msgspec.convert(row.policy, QueuePolicy),
        )
        for row in rows
    }


def _cohorts(conn: Connection) -> dict[int, Cohort]:
    quotas: dict[int, list[Row[Any]]] = defaultdict(list)
    statement = "SELECT cohort_id, resource, nominal, borrowing, lending FROM cohort_quotas"
    for row in conn.execute(text(statement)):
        quotas[row.cohort_id].append(row)
    return {
        row.id: Cohort(
            id=row.id,
            name=row.name,
            parent_id=row.parent_id,
            weight=row.weight,
            quota=Quota(
                nominal=_amounts(quotas[row.id], "nominal"),
                borrowing=_amounts(quotas[row.id], "borrowing"),
                lending=_amounts(quotas[row.id], "lending"),
            ),
        )
        for row in conn.execute(text("SELECT id, name, parent_id, weight FROM cohorts"))
    }


def _amounts(quotas: list[Row[Any]], column: str) -> dict[str, int]:
    """One column by resource, of those that say something."""
    return {row.resource: amount for row in quotas if (amount := getattr(row, column)) is not None}


def _pools(conn: Connection) -> dict[int, Pool]:
    return {
        row.id: Pool(id=row.id, name=row.name, levels=tuple(row.levels), can_resize=row.can_resize)
        for row in conn.execute(text("SELECT id, name, levels, can_resize FROM pools"))
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
