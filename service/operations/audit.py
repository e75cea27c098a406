"""The audit: books, ledger and what launchers list, compared place by place (R7).

The two stores are read one after the other, so what a cycle or a dispatcher is just writing looks
like drift for a moment. What differs is therefore looked at again, and counts only if it stays.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from redis import Redis
from sqlalchemy import Connection, Engine, text

from service.admission.world import Configuration
from service.domain.unit import group_of
from service.inventory.compare import Difference, DriftKind, compare
from service.inventory.ledger import Ledger
from service.inventory.listing import Listing, read_listings
from service.inventory.state import AttemptKey, LedgerState
from service.operations.rebuild import held_by, ledger_state
from service.store.audit_rows import GroupName, load_closed_at, load_generations, load_group_names
from service.store.shapes import load_shapes
from service.store.world_rows import read_configuration, read_live_units

#: R5: a committed release that the ledger has not seen after this is drift.
RELEASE_SECONDS = 10
_LOOKS = 5
_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """PostgreSQL at one instant: what the ledger should say, and what dispatchers should run."""

    configuration: Configuration
    state: LedgerState
    generations: Mapping[AttemptKey, tuple[int, datetime | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One place where the stores differ. `node` is its name; `group` None: nobody knows it."""

    difference: Difference
    node: str
    group: GroupName | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """`releasing`: committed ends that the leader has yet to apply, younger than RELEASE_SECONDS."""

    at: datetime
    devices: int = 0
    held: int = 0
    lost: int = 0
    free: int = 0
    drift: tuple[Finding, ...] = ()
    releasing: tuple[Finding, ...] = ()
    listings: Mapping[str, datetime] = field(default_factory=dict)

    @property
    def is_clean(self) -> bool:
        return not self.drift


def audit(engine: Engine, redis: Redis, *, now: datetime) -> Audit:
    """Compare everything. Raises redis' errors when Redis is away."""
    with engine.connect() as conn:
        books, ledger, listings, seen = _look(conn, redis)
        for _ in range(_LOOKS - 1):
            if not seen:
                break
            time.sleep(_PAUSE_SECONDS)
            books, ledger, listings, again = _look(conn, redis)
            seen &= again
        drift, releasing = _judge(conn, seen, now=now)
        findings = _Findings.read(conn, seen, configuration=books.configuration)
        conn.rollback()
    return Audit(
        at=now,
        **_totals(ledger),
        drift=tuple(findings.of(drift)),
        releasing=tuple(findings.of(releasing)),
        listings={books.configuration.pools[each.pool_id].name: each.at for each in listings},
    )


def read_books(conn: Connection) -> Books:
    """Everything of one instant."""
    conn.rollback()
    conn.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"))
    configuration = read_configuration(conn)
    running = read_live_units(conn)
    shapes = load_shapes(conn, {unit.shape_id for unit in running.values()})
    held = [held_by(unit, shapes[unit.shape_id]) for unit in running.values()]
    return Books(
        configuration=configuration,
        state=ledger_state(configuration, held),
        generations=load_generations(conn),
    )


def _look(
    conn: Connection, redis: Redis
) -> tuple[Books, LedgerState | None, tuple[Listing, ...], frozenset[Difference]]:
    books = read_books(conn)
    ledger = Ledger(redis).read()
    listings = read_listings(redis, books.configuration.pools)
    seen = frozenset({Difference(DriftKind.NO_LEDGER, 0)}) if ledger is None else compare(books.state, ledger)
    return books, ledger, listings, seen.union(_unbooked(conn, books, listings=listings))


def _unbooked(conn: Connection, books: Books, *, listings: Iterable[Listing]) -> Iterator[Difference]:
    """Live members of attempts or generations that PostgreSQL does not know (T1), as far as they were
    listed after it said so."""
    strays: list[tuple[AttemptKey, datetime]] = []
    for listing in listings:
        for unit_id, attempt, generation in listing.generations:
            booked, claimed_at = books.generations.get((unit_id, attempt), (None, None))
            is_old_news = booked is not None and (claimed_at is None or listing.at <= claimed_at)
            if booked != generation and not is_old_news:
                strays.append(((unit_id, attempt), listing.at))
    closed_at = load_closed_at(conn, [key for key, _ in strays]) if strays else {}
    for key, listed_at in strays:
        if key not in closed_at or listed_at > closed_at[key]:
            yield Difference(DriftKind.UNBOOKED, 0, None, key)


def _judge(
    conn: Connection, seen: frozenset[Difference], *, now: datetime
) -> tuple[list[Difference], list[Difference]]:
    """Drift, and what is only on its way (R5)."""
    late = {DriftKind.NOT_IN_BOOKS, DriftKind.UNBOOKED}
    ended = {each.holder for each in seen if each.kind in late and each.holder is not None}
    closed_at = load_closed_at(conn, ended) if ended else {}
    since = now - timedelta(seconds=RELEASE_SECONDS)
    releasing = [
        each
        for each in seen
        if each.kind in late and each.holder and closed_at.get(each.holder, since) > since
    ]
    return sorted(seen.difference(releasing), key=_order), sorted(releasing, key=_order)


def _order(each: Difference) -> tuple[int, int, str, AttemptKey]:
    return each.node_id, -1 if each.device is None else each.device, each.kind, each.holder or (0, 0)


def _totals(ledger: LedgerState | None) -> dict[str, int]:
    if ledger is None:
        return {}
    held = frozenset(ledger.holders())
    return {
        "devices": len(ledger.devices),
        "held": len(held),
        "lost": len(ledger.lost - held),
        "free": len(ledger.free()),
    }


@dataclass(frozen=True, slots=True)
class _Findings:
    """Names for what differs."""

    groups: Mapping[int, GroupName]
    nodes: Mapping[int, str]

    @classmethod
    def read(cls, conn: Connection, seen: Iterable[Difference], *, configuration: Configuration) -> _Findings:
        holders = {group_of(each.holder[0]) for each in seen if each.holder is not None}
        nodes = {node.id: node.name for node in configuration.nodes.values()}
        return cls(load_group_names(conn, holders) if holders else {}, nodes)

    def of(self, differences: Iterable[Difference]) -> Iterator[Finding]:
        for each in differences:
            node = self.nodes.get(each.node_id, f"unknown node {each.node_id}" if each.node_id else "")
            group = self.groups.get(group_of(each.holder[0])) if each.holder else None
            yield Finding(difference=each, node=node, group=group, message=_sentence(each, node, group=group))


_SENTENCES = {
    DriftKind.NOT_IN_BOOKS: "the ledger says that {holder} holds {place}, PostgreSQL does not",
    DriftKind.NOT_IN_LEDGER: "PostgreSQL says that {holder} holds {place}, the ledger does not",
    DriftKind.OTHER_PLACES: "PostgreSQL and the ledger differ on whether {holder} holds {place}",
    DriftKind.TWO_HOLDERS: "{place} has a second holder in the ledger: {holder}",
    DriftKind.CAPACITY: "PostgreSQL and the ledger describe {place} differently",
    DriftKind.LOST_DIFFERS: "{place} is lost for only one of PostgreSQL and the ledger",
    DriftKind.UNBOOKED: "members of {holder} run, and PostgreSQL does not know of them",
    DriftKind.NO_LEDGER: "there is no ledger in Redis",
}


def _sentence(each: Difference, node: str, *, group: GroupName | None) -> str:
    place = node if each.device is None else f"GPU {each.device} of {node}"
    holder = "nobody"
    if each.holder is not None:
        name = f"group {group.name}" if group else f"unit {each.holder[0]}"
        holder = f"{name} (attempt {each.holder[1]})"
    return _SENTENCES[each.kind].format(place=place, holder=holder)
