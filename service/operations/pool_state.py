"""What a dispatcher knows of its pool's nodes, and what it writes about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from service.domain.events import Event, Kind
from service.operations.dispatch import Faults, PoolFence
from service.operations.register_nodes import Registered, ReportedNode, device_event, register_nodes
from service.store.config import raise_config_version
from service.store.events import add_events
from service.store.inventory_rows import (
    find_unreachable,
    list_lost_devices,
    load_nodes,
    set_devices_found,
    set_devices_lost,
    set_unreachable,
)

#: A device: node id and index on it.
Seat = tuple[int, int]
#: Who could not be ended there: unit, attempt, generation.
Holder = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBook:
    """The pool's nodes as of the last read. Only its dispatcher changes what this holds."""

    names: Mapping[int, str] = field(default_factory=dict)
    ids: Mapping[str, int] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    lost: Mapping[Seat, Holder] = field(default_factory=dict)
    is_unreachable: bool = False


def load_node_book(fence: PoolFence) -> NodeBook:
    with fence.conn.begin():
        nodes = load_nodes(fence.conn, fence.pool_id).values()
        unreachable_at = find_unreachable(fence.conn, fence.pool_id)
    lost = {
        (node.id, index): parse_lost_note(device.lost_note)
        for node in nodes
        for index, device in node.devices.items()
        if device.lost_at is not None and device.lost_note is not None
    }
    return NodeBook(
        names={node.id: node.name for node in nodes},
        ids={node.name: node.id for node in nodes},
        faults=Faults(
            down_nodes=frozenset(node.id for node in nodes if not node.is_ready),
            lost_devices=frozenset(lost),
        ),
        lost=lost,
        is_unreachable=unreachable_at is not None,
    )


def commit_nodes(fence: PoolFence, reports: Sequence[ReportedNode], *, now: datetime) -> Registered:
    with fence.transaction() as conn:
        return register_nodes(conn, fence.pool_id, reports=reports, now=now)


def commit_reachability(fence: PoolFence, *, is_reachable: bool, now: datetime) -> None:
    """Answers show that a launcher is out of reach. Nothing else follows from it."""
    kind = Kind.LAUNCHER_BACK if is_reachable else Kind.LAUNCHER_UNREACHABLE
    with fence.transaction() as conn:
        set_unreachable(conn, fence.pool_id, at=None if is_reachable else now)
        add_events(conn, [Event(at=now, kind=kind, data={"pool_id": fence.pool_id})])


def lose_devices(fence: PoolFence, lost: Mapping[Seat, Holder], *, now: datetime) -> bool:
    """Something that is not in the books sits there (T1). True if that is new."""
    if not lost:
        return False
    with fence.transaction() as conn:
        known = list_lost_devices(conn, fence.pool_id)
        rows = [(*seat, lost_note(holder)) for seat, holder in lost.items() if seat not in known]
        if not rows:
            return False
        # Before anything else is locked, as every change of the configuration does it (L2).
        raise_config_version(conn)
        new = set_devices_lost(conn, rows, now=now)
        add_events(
            conn,
            (device_event(Kind.DEVICE_LOST, seat, at=now, note=lost_note(lost[seat])) for seat in new),
        )
    return bool(new)


def find_devices(fence: PoolFence, found: Sequence[Seat], *, now: datetime) -> bool:
    """What sat there has answered `close` and is gone (X5). True if anything was written."""
    if not found:
        return False
    with fence.transaction() as conn:
        raise_config_version(conn)
        set_devices_found(conn, found)
        add_events(conn, (device_event(Kind.DEVICE_FOUND, seat, at=now) for seat in found))
    return True


def lost_note(holder: Holder) -> str:
    """Who could not be ended on a lost device, as `devices.lost_note` has it."""
    return "/".join(map(str, holder))


def parse_lost_note(note: str) -> Holder:
    unit_id, attempt, generation = map(int, note.split("/"))
    return unit_id, attempt, generation
