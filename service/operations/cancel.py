"""Cancel: what waits ends at once, what holds places is evicted and ends when its members are gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, Engine

from service.domain.errors import Conflict, NotFound
from service.domain.events import Event, Kind
from service.domain.principal import Principal
from service.domain.status import LIVE, Cause, Status
from service.operations.dependencies import answer_dependents
from service.operations.evict import evict_units
from service.operations.read_groups import get_visible_group
from service.operations.transactions import in_transaction
from service.store.events import add_events
from service.store.specs import erase_secrets
from service.store.waiting_units import LockedUnit, cancel_waiting, cut_out_member, lock_group_units


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelling:
    """What to ring after the commit: the cycle if anything changed, the dispatchers of `pool_ids`."""

    has_changed: bool
    pool_ids: frozenset[int]


def cancel_group(engine: Engine, public_id: UUID, *, principal: Principal, now: datetime) -> Cancelling:
    """Cancel everything of a group that has not ended; nothing to do is no error. Raises NotFound."""

    def work(conn: Connection) -> Cancelling:
        group = get_visible_group(conn, public_id, principal=principal)
        units = lock_group_units(conn, group.id)
        return cancel_units(conn, units, message=_message(principal), actor=principal.user, now=now)

    return in_transaction(engine, work)


def cancel_member(
    engine: Engine, public_id: UUID, *, member: int, principal: Principal, now: datetime
) -> Cancelling:
    """Cancel one member of an independent group. Raises NotFound, and Conflict for a gang."""

    def work(conn: Connection) -> Cancelling:
        group = get_visible_group(conn, public_id, principal=principal)
        if not 0 <= member < group.member_count:
            raise NotFound(f"The group has members 0 to {group.member_count - 1}.")
        if group.is_gang:
            raise Conflict("The members of a gang need each other: cancel the group.")
        units = lock_group_units(conn, group.id, member=member)
        others: list[LockedUnit] = []
        if units and units[0].first_index != units[0].last_index:
            own, others = cut_out_member(conn, units[0], member=member)
            units = [own]
        add_events(conn, _events(others, Kind.RANGE_SPLIT, actor=principal.user, now=now))
        return cancel_units(conn, units, message=_message(principal), actor=principal.user, now=now)

    return in_transaction(engine, work)


def cancel_units(
    conn: Connection, units: Sequence[LockedUnit], *, message: str, actor: str, now: datetime
) -> Cancelling:
    """Cancel these locked units of locked groups, within the caller's transaction."""
    waiting = [unit for unit in units if unit.status is Status.PENDING]
    cancel_waiting(conn, waiting, message=message, now=now)
    add_events(conn, _events(waiting, Kind.CANCELLED, actor=actor, now=now, message=message))
    evicted = evict_units(
        conn,
        [unit.id for unit in units if unit.status in LIVE],
        target=Status.CANCELLED,
        cause=Cause.CANCELLED,
        message=message,
        now=now,
        actor=actor,
    )
    if group_ids := {unit.group_id for unit in waiting}:
        erase_secrets(conn, group_ids)
        answer_dependents(conn, group_ids, now=now)
    return Cancelling(has_changed=bool(waiting or evicted.unit_ids), pool_ids=evicted.pool_ids)


def _message(principal: Principal) -> str:
    return f"cancelled by {principal.user}"


def _events(
    units: Sequence[LockedUnit], kind: Kind, *, actor: str, now: datetime, message: str | None = None
) -> Iterator[Event]:
    cause = Cause.CANCELLED.value if kind is Kind.CANCELLED else None
    said = {} if message is None else {"message": message}
    for unit in units:
        yield Event(
            at=now,
            kind=kind,
            actor=actor,
            group_id=unit.group_id,
            unit_id=unit.id,
            attempt=unit.attempt,
            cause=cause,
            data={"first_index": unit.first_index, "last_index": unit.last_index, **said},
        )
