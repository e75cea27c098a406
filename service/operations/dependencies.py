"""The end of a group, told to the groups that wait for it, in the transaction that ends it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection

from service.domain.events import Event, Kind
from service.domain.status import Cause, Status
from service.points import reach
from service.store.dependencies import (
    ChangedRow,
    Dependents,
    NeverMet,
    cancel_never_met,
    find_dependents,
    find_ended,
    lock_dependents,
    set_met,
)
from service.store.events import add_events
from service.store.specs import erase_secrets


def answer_dependents(conn: Connection, group_ids: Collection[int], *, now: datetime) -> bool:
    """Tell everybody who waits for those of these locked groups that have ended as a whole: what is met is
    counted down; whoever cannot start any more is Cancelled, and so are those that wait for whoever was,
    unless that is what they wait for. Once, for an entry that was answered is not open any more. Returns
    whether anybody was told."""
    ended = find_ended(conn, group_ids)
    if not ended:
        return False
    # 1. Who it is, under locks: whoever was added while the locks were waited for is found by the next look.
    dependents = _lock_dependents(conn, ended)
    # 2. Those that can never start.
    cancelled = cancel_never_met(conn, dependents.never, now=now) if dependents.never else []
    if cancelled:
        erase_secrets(conn, {row.group_id for row in cancelled})
    # 3. Those that wait for less than before.
    all_ended = ended | dict.fromkeys((each.group_id for each in dependents.never), Status.CANCELLED)
    met = set_met(conn, all_ended, group_ids=dependents.met, now=now) if dependents.met else []
    add_events(conn, _cancelled_events(cancelled, dependents.never, now=now))
    add_events(conn, _met_events(met, now=now))
    reach("store.dependents-answered")
    return bool(cancelled or met)


def _lock_dependents(conn: Connection, ended: Mapping[int, Status]) -> Dependents:
    locked: set[int] = set()
    while True:
        dependents = find_dependents(conn, ended)
        if not (missing := dependents.group_ids() - locked):
            return dependents
        lock_dependents(conn, missing)
        locked |= missing


def _met_events(rows: Sequence[ChangedRow], *, now: datetime) -> Iterator[Event]:
    for row in rows:
        yield Event(
            at=now,
            kind=Kind.DEPENDENCY_MET,
            group_id=row.group_id,
            unit_id=row.unit_id,
            attempt=row.attempt,
            data={"open": row.open_dependencies},
        )


def _cancelled_events(
    rows: Sequence[ChangedRow], never: Sequence[NeverMet], *, now: datetime
) -> Iterator[Event]:
    why = {each.group_id: each for each in never}
    for row in rows:
        yield Event(
            at=now,
            kind=Kind.CANCELLED,
            group_id=row.group_id,
            unit_id=row.unit_id,
            attempt=row.attempt,
            cause=Cause.DEPENDENCY_NEVER_MET.value,
            data={
                "first_index": row.first_index,
                "last_index": row.last_index,
                "group": str(why[row.group_id].on),
                "when": why[row.group_id].when.value,
            },
        )
