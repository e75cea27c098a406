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
    conn: Connection, pool_id: int, *, reports: Sequence[ReportedNode], now: datetime
) -> Registered:
    """Write what is new about the pool's nodes, within the caller's fenced transaction.

    A node that is not reported any more is not ready; nodes and devices are never deleted here. A node
    that is ready with another boot id than a device was lost in has nothing left of it: the device is
    found (X5). The configuration is a new one, and events are written, only if something changed.
    """
    known = load_nodes(conn, pool_id)
    refused = find_foreign_names(
        conn, pool_id, names=(r.values.name for r in reports if r.values.name not in known)
    )
    taken = [report for report in reports if report.values.name not in refused]
    changes = _changes(known, taken)
    if changes:
        # Before any node is locked, as an operator's change does it; the other order deadlocks. What
        # was read stays true: only the pool's dispatcher writes these columns.
        raise_config_version(conn)
        add_events(conn, _write(conn, pool_id, changes=changes, now=now))
    return Registered(has_changed=bool(changes), refused=refused)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """What is new of one node; `known` None: all of it."""

    known: NodeRow | None
    values: NodeValues
    devices: Sequence[DeviceRow] = ()
    found: Sequence[int] = ()

    def __bool__(self) -> bool:
        return self.has_news or bool(self.found)

    @property
    def has_news(self) -> bool:
        return self.known is None or self.values != _values_of(self.known) or bool(self.devices)


def _changes(known: Mapping[str, NodeRow], reports: Sequence[ReportedNode]) -> list[_Change]:
    named = {report.values.name for report in reports}
    changes = [_change(known.get(report.values.name), report) for report in reports]
    changes += [
        _Change(known=node, values=_values_of(node, is_ready=False))
        for name, node in known.items()
        if name not in named
    ]
    return [change for change in changes if change]


def _change(node: NodeRow | None, report: ReportedNode) -> _Change:
    if node is None:
        return _Change(known=None, values=report.values, devices=report.devices)
    return _Change(
        known=node,
        values=report.values,
        devices=_changed_devices(node, report.devices),
        found=_found_by_boot(node, report.values.boot_id) if report.values.is_ready else (),
    )


def _write(conn: Connection, pool_id: int, *, changes: Sequence[_Change], now: datetime) -> list[Event]:
    new = [change.values for change in changes if change.known is None]
    ids = add_nodes(conn, pool_id, nodes=new, now=now) if new else {}
    events: list[Event] = []
    for change in changes:
        node_id = ids[change.values.name] if change.known is None else change.known.id
        if change.known is not None and change.values != _values_of(change.known):
            set_node(conn, node_id, values=change.values, now=now)
        if change.devices:
            set_devices(conn, node_id, devices=change.devices)
        if change.has_news:
            events.append(_event(_state_kind(change.values), node_id, name=change.values.name, at=now))
        events += [device_event(Kind.DEVICE_FOUND, (node_id, index), at=now) for index in change.found]
    found = [(change.known.id, index) for change in changes if change.known for index in change.found]
    if found:
        set_devices_found(conn, found)
    return events


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


def _found_by_boot(node: NodeRow, boot_id: str | None) -> list[int]:
    """Devices that were lost in another boot. The first report of that boot may have come while the
    node was not ready, so it is not the change that counts."""
    return [
        index
        for index, device in node.devices.items()
        if device.lost_at is not None
        and None not in (boot_id, device.lost_boot_id)
        and device.lost_boot_id != boot_id
    ]


def device_event(kind: Kind, seat: tuple[int, int], *, at: datetime, note: str | None = None) -> Event:
    """A device, (node, device), was lost or found."""
    node_id, device = seat
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


def _event(kind: Kind, node_id: int, *, name: str, at: datetime) -> Event:
    return Event(at=at, kind=kind, node_id=node_id, data={"node": name})
