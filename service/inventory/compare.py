"""Two states of the ledger compared, place by place (R7). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from service.inventory.state import AttemptKey, DeviceKey, LedgerState, NodeRoom, Reservation


class DriftKind(StrEnum):
    """How books and ledger differ.

    `NotInBooks`: the ledger has a holder that PostgreSQL has not. `NotInLedger`: the other way round.
    `OtherPlaces`: both have the attempt, with other places or amounts. `TwoHolders`: the ledger gave
    one device away twice. `Capacity`: other nodes, devices or sizes. `LostDiffers`: a device is lost
    for one of them only. `Unbooked`: a launcher lists live members that PostgreSQL does not know.
    """

    NOT_IN_BOOKS = "NotInBooks"
    NOT_IN_LEDGER = "NotInLedger"
    OTHER_PLACES = "OtherPlaces"
    TWO_HOLDERS = "TwoHolders"
    CAPACITY = "Capacity"
    LOST_DIFFERS = "LostDiffers"
    UNBOOKED = "Unbooked"
    NO_LEDGER = "NoLedger"


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """One place that differs. `device` None: the node's CPUs and memory; `holder` None: nobody."""

    kind: DriftKind
    node_id: int
    device: int | None = None
    holder: AttemptKey | None = None


def compare(books: LedgerState, ledger: LedgerState) -> frozenset[Difference]:
    """What the ledger would have to change to say what the books say."""
    return frozenset(
        (*_holders(books, ledger), *_two_holders(ledger), *_capacity(books, ledger), *_lost(books, ledger))
    )


def _holders(books: LedgerState, ledger: LedgerState) -> Iterator[Difference]:
    booked, held = _by_attempt(books), _by_attempt(ledger)
    for attempt in held.keys() - booked.keys():
        yield from _places(DriftKind.NOT_IN_BOOKS, attempt, holds=held[attempt])
    for attempt in booked.keys() - held.keys():
        yield from _places(DriftKind.NOT_IN_LEDGER, attempt, holds=booked[attempt])
    for attempt in booked.keys() & held.keys():
        for place in _differing(booked[attempt], held[attempt]):
            yield Difference(DriftKind.OTHER_PLACES, *place, attempt)


def _places(kind: DriftKind, attempt: AttemptKey, *, holds: _Holds) -> Iterator[Difference]:
    for node_id, device in holds.devices:
        yield Difference(kind, node_id, device, attempt)
    nodes_of_devices = {node_id for node_id, _ in holds.devices}
    for node_id in holds.amounts.keys() - nodes_of_devices:
        yield Difference(kind, node_id, None, attempt)


def _differing(one: _Holds, other: _Holds) -> Iterator[tuple[int, int | None]]:
    yield from one.devices ^ other.devices
    for node_id in one.amounts.keys() | other.amounts.keys():
        if one.amounts.get(node_id) != other.amounts.get(node_id):
            yield node_id, None


def _two_holders(ledger: LedgerState) -> Iterator[Difference]:
    seen: dict[DeviceKey, AttemptKey] = {}
    for held in ledger.reservations:
        attempt = (held.unit_id, held.attempt)
        for node_id, device in held.devices:
            if seen.setdefault((node_id, device), attempt) != attempt:
                yield Difference(DriftKind.TWO_HOLDERS, node_id, device, attempt)


def _capacity(books: LedgerState, ledger: LedgerState) -> Iterator[Difference]:
    for node_id in books.nodes.keys() | ledger.nodes.keys():
        if books.nodes.get(node_id) != ledger.nodes.get(node_id):
            yield Difference(DriftKind.CAPACITY, node_id)
    for place in books.devices.keys() | ledger.devices.keys():
        if books.devices.get(place) != ledger.devices.get(place):
            yield Difference(DriftKind.CAPACITY, *place)


def _lost(books: LedgerState, ledger: LedgerState) -> Iterator[Difference]:
    return (Difference(DriftKind.LOST_DIFFERS, *place) for place in books.lost ^ ledger.lost)


@dataclass(slots=True)
class _Holds:
    """All that one attempt holds: devices, and (thousandths of CPUs, MiB) by node, zeros left out."""

    devices: frozenset[DeviceKey]
    amounts: Mapping[int, tuple[int, int]]


def _by_attempt(state: LedgerState) -> dict[AttemptKey, _Holds]:
    revisions: dict[AttemptKey, list[Reservation]] = {}
    for held in state.reservations:
        revisions.setdefault((held.unit_id, held.attempt), []).append(held)
    return {attempt: _sum(held) for attempt, held in revisions.items()}


def _sum(revisions: list[Reservation]) -> _Holds:
    amounts: dict[int, tuple[int, int]] = {}
    for held in revisions:
        for node_id in held.cpus_milli.keys() | held.memory_mib.keys():
            cpus, memory = amounts.get(node_id, (0, 0))
            amounts[node_id] = (
                cpus + held.cpus_milli.get(node_id, 0),
                memory + held.memory_mib.get(node_id, 0),
            )
    return _Holds(
        devices=frozenset(place for held in revisions for place in held.devices),
        amounts={node_id: both for node_id, both in amounts.items() if any(both)},
    )


def free_room(state: LedgerState) -> dict[int, NodeRoom]:
    """CPUs and memory that nobody holds, by node."""
    cpus = {node_id: room.cpus_milli for node_id, room in state.nodes.items()}
    memory = {node_id: room.memory_mib for node_id, room in state.nodes.items()}
    for held in state.reservations:
        for node_id, amount in held.cpus_milli.items():
            cpus[node_id] = cpus.get(node_id, 0) - amount
        for node_id, amount in held.memory_mib.items():
            memory[node_id] = memory.get(node_id, 0) - amount
    return {
        node_id: NodeRoom(cpus_milli=cpus[node_id], memory_mib=memory[node_id]) for node_id in state.nodes
    }
