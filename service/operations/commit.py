"""Commit what a cycle decided: one fenced transaction, all of it or nothing (L2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from psycopg.errors import DeadlockDetected
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from service.admission.plan import Admission
from service.domain.events import Event, Kind
from service.domain.unit import index_of
from service.points import reach
from service.store.admit import (
    Limits,
    TakenRow,
    WaitingRow,
    add_attempts,
    add_held_devices,
    add_members,
    lock_groups,
    read_limits,
    take_rows,
)
from service.store.events import add_events
from service.store.lease import Fence, lock_fence

_TRIES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """`won` are admitted. `lost` found their row changed since the plan: their places are to be
    given back in the ledger."""

    won: tuple[Admission, ...]
    lost: tuple[Admission, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outdated:
    """Nothing was written: the epoch or the configuration is not the plan's any more."""

    found: Fence


def commit_admissions(
    conn: Connection,
    admissions: Sequence[Admission],
    *,
    independent_groups: Collection[int],
    fence: Fence,
    now: datetime,
    cycle: int,
) -> Committed | Outdated:
    """Pending -> Admitted for every admission whose row is still as the plan knew it, with attempts,
    held devices and events. `independent_groups`: those of the admissions' groups that are no gangs.

    Raises psycopg's UniqueViolation if a device is held already (R3, R6): then nothing was written.
    If an error says that the connection is lost, the outcome is not known (L4). Of a transaction that
    the database ended as a deadlock nothing has happened, so it is made again (W4).
    """

    def once() -> Committed | Outdated:
        return _commit_once(
            conn, admissions, independent_groups=independent_groups, fence=fence, now=now, cycle=cycle
        )

    for _ in range(_TRIES - 1):
        try:
            return once()
        except DeadlockDetected:
            continue
        except OperationalError as error:
            if not isinstance(error.orig, DeadlockDetected):
                raise
    return once()


def _commit_once(
    conn: Connection,
    admissions: Sequence[Admission],
    *,
    independent_groups: Collection[int],
    fence: Fence,
    now: datetime,
    cycle: int,
) -> Committed | Outdated:
    with conn.begin() as transaction:
        # 1. Neither the epoch nor the configuration may move before the end (L2).
        found = lock_fence(conn)
        if found != fence:
            transaction.rollback()
            return Outdated(found=found)
        # 2. Groups of ranges first, their units in a later statement (W4).
        lock_groups(conn, independent_groups)
        # 3. Compare and set.
        taken = take_rows(conn, _waiting_rows(admissions), now=now)
        won = tuple(a for a in admissions if a.from_unit_id in taken)
        lost = tuple(a for a in admissions if a.from_unit_id not in taken)
        # 4. What the admitted units are from now on.
        if won:
            _write(conn, won, taken=taken, now=now)
            add_events(conn, (_admitted(a, now=now, epoch=fence.epoch, cycle=cycle) for a in won))
            reach("worker.cycle-written")
    return Committed(won=won, lost=lost)


def _write(
    conn: Connection, won: Sequence[Admission], *, taken: Mapping[int, TakenRow], now: datetime
) -> None:
    limits = read_limits(conn, (a.group_id for a in won))
    add_members(conn, ((a, taken[a.from_unit_id]) for a in won if a.unit_id != a.from_unit_id), now=now)
    add_attempts(conn, ((a, *_deadlines(limits[a.group_id], now)) for a in won), now=now)
    add_held_devices(conn, won)


def _waiting_rows(admissions: Sequence[Admission]) -> list[WaitingRow]:
    """One for each row that waited. Members leave a range from below, lowest index first."""
    by_row: dict[int, list[Admission]] = defaultdict(list)
    for admission in admissions:
        by_row[admission.from_unit_id].append(admission)
    return [_waiting_row(row_id, leaving) for row_id, leaving in by_row.items()]


def _waiting_row(row_id: int, leaving: Sequence[Admission]) -> WaitingRow:
    last_index = index_of(row_id)
    highest = max(admission.index for admission in leaving)
    return WaitingRow(
        id=row_id,
        version=leaving[0].version,
        attempt=leaving[0].attempt,
        first_index=min(highest + 1, last_index),
        is_used_up=highest == last_index,
    )


def _deadlines(limits: Limits, now: datetime) -> tuple[datetime | None, datetime | None]:
    return _after(now, limits.start_timeout_seconds), _after(now, limits.time_limit_seconds)


def _after(now: datetime, seconds: int | None) -> datetime | None:
    return None if seconds is None else now + timedelta(seconds=seconds)


def _admitted(admission: Admission, *, now: datetime, epoch: int, cycle: int) -> Event:
    return Event(
        at=now,
        kind=Kind.ADMITTED,
        group_id=admission.group_id,
        unit_id=admission.unit_id,
        attempt=admission.attempt,
        generation=1,
        data={"epoch": epoch, "cycle": cycle},
    )
