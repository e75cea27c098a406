"""Commit what a cycle decided: one fenced transaction, all of it or nothing (L2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.errors import DeadlockDetected
from sqlalchemy import Connection

from service.admission.plan import Admission, Plan, Resize
from service.domain.unit import index_of
from service.points import reach
from service.store.admit import WaitingRow, admit, begin_cycle, read_taken
from service.store.begin import own_begin
from service.store.claims import write_claims
from service.store.evictions import EvictedUnit, evict, read_evicted, settle_preemptions
from service.store.guard_pauses import write_guard_pauses
from service.store.lease import Fence
from service.store.resizes import read_resized, write_resizes

_TRIES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """`won` are admitted, `evicted` give way. `lost` found their row changed since the plan: their places are
    to be given back in the ledger. The same of resizes."""

    won: tuple[Admission, ...]
    lost: tuple[Admission, ...]
    evicted: tuple[EvictedUnit, ...] = ()
    resized: tuple[Resize, ...] = ()
    not_resized: tuple[Resize, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outdated:
    """Nothing was written: the epoch or the configuration is not the plan's any more."""

    found: Fence


def commit_plan(
    conn: Connection,
    plan: Plan,
    *,
    independent_groups: Collection[int],
    fence: Fence,
    now: datetime,
    cycle: int,
) -> Committed | Outdated:
    """Everything that a plan decided: Pending -> Admitted for every admission whose row is still as the plan
    knew it, with attempts, held devices and events; claims made and ended; evictions of those
    that are still as the plan knew them, with their receipts. `independent_groups`: those
    groups of the units that change that are no gangs.

    Raises psycopg's UniqueViolation if a device is held already (R3, R6): then nothing was written.
    If an error says that the connection is lost, the outcome is not known (L4). Of a transaction that
    the database ended as a deadlock nothing has happened, so it is made again (W4).
    """

    def once() -> Committed | Outdated:
        return _commit_once(
            conn, plan, independent_groups=independent_groups, fence=fence, now=now, cycle=cycle
        )

    for _ in range(_TRIES - 1):
        try:
            return once()
        except DeadlockDetected:
            continue
    return once()


def _commit_once(
    conn: Connection,
    plan: Plan,
    *,
    independent_groups: Collection[int],
    fence: Fence,
    now: datetime,
    cycle: int,
) -> Committed | Outdated:
    rows = _waiting_rows(plan.admissions)
    with own_begin(conn) as driver:
        with driver.pipeline():
            begin_cycle(driver, independent_groups, running=_running(plan))
            admitted = admit(driver, plan.admissions, rows=rows, fence=fence, now=now, cycle=cycle)
            # Whatever follows is under the fence too: if it has moved, all of this is rolled back.
            written = write_resizes(
                driver, plan.resizes, epoch=fence.epoch, config_version=fence.config_version, now=now
            )
            write_claims(
                driver, made=plan.claims_made, ended=plan.claims_ended, starting=_starting(plan), now=now
            )
            write_guard_pauses(driver, made=plan.pauses_made, dropped=plan.pauses_dropped)
            settle_preemptions(driver, started=_served(plan), wasted=plan.wasted, now=now)
            evicted = evict(driver, plan.evictions, now=now)
        taken, resized = read_taken(admitted), read_resized(written)
        if taken.fence != fence:
            return Outdated(found=taken.fence)
        gone = read_evicted(evicted)
        reach("worker.cycle-written")
        driver.commit()
    return Committed(
        won=tuple(a for a in plan.admissions if a.from_unit_id in taken.row_ids),
        lost=tuple(a for a in plan.admissions if a.from_unit_id not in taken.row_ids),
        evicted=gone,
        resized=tuple(r for r in plan.resizes if r.unit_id in resized),
        not_resized=tuple(r for r in plan.resizes if r.unit_id not in resized),
    )


def _running(plan: Plan) -> list[int]:
    """Units that hold places and change."""
    return [*(each.unit_id for each in plan.evictions), *(each.unit_id for each in plan.resizes)]


def _served(plan: Plan) -> dict[int, int]:
    """Rows whose claim ends with the admission of a unit, and that unit: perhaps others gave way to it."""
    return {row: unit for row, unit in _starting(plan).items() if row not in plan.wasted}


def _starting(plan: Plan) -> dict[int, int]:
    """By row whose claim ends a unit that is admitted from it."""
    return {a.from_unit_id: a.unit_id for a in plan.admissions if a.from_unit_id in plan.claims_ended}


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
