"""What a launcher reports of its nodes goes into the books, when it is something new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Connection

from service.domain.events import Event, Kind
from service.domain.node import HOST
from service.store.config import raise_config_version
from service.store.events import add_events
from service.store.inventory_rows import (
    DeviceRow,
    NodeRow,
    NodeValues,
    add_nodes,
    find_foreign_names,
    load_nodes,
    reported,
    set_devices,
    set_devices_found,
    set_node,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedNode:
    """A node as its launcher reports it: everything of `NodeValues`, and its devices."""

    values: NodeValues
    devices: tuple[DeviceRow, ...]


@dataclass(slots=True)
class Registered:
    """`refused`: names that are nodes of another pool, which keeps them."""

    has_changed: bool = False
    refused: list[str] = field(default_factory=list)


def with_host(labels: Mapping[str, str], name: str) -> dict[str, str]:
    """Every node has a label that names it."""
    return {**labels, HOST: name}


def register_nodes(
    conn: Connection, pool_id: int, reports: Sequence[ReportedNode], *, now: datetime
) -> Registered:
    """Write what is new about the pool's nodes, within the caller's fenced transaction.

    A node that is not reported any more is not ready; nodes and devices are never deleted here. A node
    with another boot id has none of its old processes: its lost devices are found (X5). The
    configuration is a new one, and events are written, only if something changed.
    """
    known = load_nodes(conn, pool_id)
    refused = find_foreign_names(
        conn, pool_id, (r.values.name for r in reports if r.values.name not in known)
    )
    taken = [report for report in reports if report.values.name not in refused]
    events = [
        *_register_new(conn, pool_id, [r for r in taken if r.values.name not in known], now=now),
        *(
            event
            for report in taken
            if report.values.name in known
            for event in _register_known(conn, known[report.values.name], report, now=now)
        ),
        *_mark_absent(conn, known, {report.values.name for report in taken}, now=now),
    ]
    if events:
        add_events(conn, events)
        raise_config_version(conn)
    return Registered(has_changed=bool(events), refused=refused)


def _register_new(
    conn: Connection, pool_id: int, reports: Sequence[ReportedNode], *, now: datetime
) -> list[Event]:
    if not reports:
        return []
    ids = add_nodes(conn, pool_id, [report.values for report in reports], now=now)
    for report in reports:
        set_devices(conn, ids[report.values.name], report.devices)
    return [
        _event(_state_kind(report.values), ids[report.values.name], report.values.name, now)
        for report in reports
    ]


def _register_known(conn: Connection, node: NodeRow, report: ReportedNode, *, now: datetime) -> list[Event]:
    events: list[Event] = []
    before = _values_of(node)
    if before != report.values:
        set_node(conn, node.id, report.values, now=now)
        events.append(_event(_state_kind(report.values), node.id, node.name, now))
    changed = _changed_devices(node, report.devices)
    if changed:
        set_devices(conn, node.id, changed)
        if not events:
            events.append(_event(_state_kind(report.values), node.id, node.name, now))
    if report.values.boot_id != node.boot_id and report.values.is_ready:
        events.extend(_find_lost(conn, node, report.values.boot_id, now=now))
    return events


def _mark_absent(
    conn: Connection, known: Mapping[str, NodeRow], named: set[str], *, now: datetime
) -> list[Event]:
    absent = [node for name, node in known.items() if name not in named and node.is_ready]
    for node in absent:
        set_node(conn, node.id, _values_of(node, is_ready=False), now=now)
    return [_event(Kind.NODE_DOWN, node.id, node.name, now) for node in absent]


def _changed_devices(node: NodeRow, devices: Sequence[DeviceRow]) -> list[DeviceRow]:
    """Devices that differ from what is known. One that is not named any more is not healthy."""
    named = {device.device for device in devices}
    changed = [
        device
        for device in devices
        if device.device not in node.devices or reported(node.devices[device.device]) != device
    ]
    gone = [
        DeviceRow(
            device=device.device,
            model=device.model,
            memory_mib=device.memory_mib,
            uuid=device.uuid,
            is_healthy=False,
        )
        for index, device in node.devices.items()
        if index not in named and device.is_healthy
    ]
    return changed + gone


def _find_lost(conn: Connection, node: NodeRow, boot_id: str | None, *, now: datetime) -> list[Event]:
    found = [
        (node.id, index)
        for index, device in node.devices.items()
        if device.lost_at is not None and device.lost_boot_id != boot_id
    ]
    if not found:
        return []
    set_devices_found(conn, found)
    return [device_event(Kind.DEVICE_FOUND, node_id, device, at=now) for node_id, device in found]


def device_event(kind: Kind, node_id: int, device: int, *, at: datetime, note: str | None = None) -> Event:
    """A device was lost or found."""
    return Event(
        at=at, kind=kind, node_id=node_id, data={"device": device} | ({"note": note} if note else {})
    )


def _values_of(node: NodeRow, *, is_ready: bool | None = None) -> NodeValues:
    return NodeValues(
        name=node.name,
        cpus_milli=node.cpus_milli,
        memory_mib=node.memory_mib,
        labels=dict(node.labels),
        is_ready=node.is_ready if is_ready is None else is_ready,
        boot_id=node.boot_id,
    )


def _state_kind(values: NodeValues) -> Kind:
    return Kind.NODE_UP if values.is_ready else Kind.NODE_DOWN


def _event(kind: Kind, node_id: int, name: str, at: datetime) -> Event:
    return Event(at=at, kind=kind, node_id=node_id, data={"node": name})
