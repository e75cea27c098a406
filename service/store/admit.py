"""Statements of a cycle's transaction: waiting rows become admitted ones, with their holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb
from sqlalchemy import Connection, text

from service.admission.plan import Admission
from service.domain.status import Status
from service.store.copying import copy_rows
from service.store.groups import UNIT_COLUMNS
from service.store.places import pack_places

_LOCK_GROUPS = "SELECT id FROM groups WHERE id = ANY(:ids) ORDER BY id FOR NO KEY UPDATE"
#: `first_index` is the lowest index that keeps waiting, or the last one if none does: then the row
#: itself is admitted. No UPDATE promises in which order it locks: a deadlock is retried (W4).
_TAKE = """
UPDATE units u SET
  version = u.version + 1,
  first_index = w.first_index,
  status = CASE WHEN w.is_used_up THEN 'Admitted' ELSE u.status END,
  admitted_at = CASE WHEN w.is_used_up THEN CAST(:now AS timestamptz) ELSE u.admitted_at END,
  backoff_until = CASE WHEN w.is_used_up THEN NULL ELSE u.backoff_until END,
  cause = CASE WHEN w.is_used_up THEN NULL ELSE u.cause END,
  message = CASE WHEN w.is_used_up THEN NULL ELSE u.message END
FROM unnest(CAST(:ids AS bigint[]), CAST(:versions AS int[]), CAST(:attempts AS int[]),
            CAST(:first_indexes AS int[]), CAST(:used_up AS boolean[]))
  AS w(id, version, attempt, first_index, is_used_up)
WHERE u.id = w.id AND u.status = 'Pending' AND u.version = w.version AND u.attempt = w.attempt
RETURNING u.id, u.version, u.restarts_used, u.refused_dispatches, u.failed_nodes
"""
_LIMITS = "SELECT id, time_limit_seconds, start_timeout_seconds FROM groups WHERE id = ANY(:ids)"

_ATTEMPT_COLUMNS = (
    "unit_id",
    "attempt",
    "revision",
    "generation",
    "group_id",
    "queue_id",
    "pool_id",
    "places",
    "usage",
    "dispatch",
    "dispatches",
    "admitted_at",
    "start_deadline_at",
    "time_limit_at",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRow:
    """A waiting row as the plan knew it, and what the plan leaves of it."""

    id: int
    version: int
    attempt: int
    first_index: int
    is_used_up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenRow:
    """A row that was still as the plan knew it, with what its members inherit."""

    version: int
    restarts_used: int
    refused_dispatches: int
    failed_nodes: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of a group, in seconds; None for no limit."""

    time_limit_seconds: int | None
    start_timeout_seconds: int | None


def lock_groups(conn: Connection, group_ids: Iterable[int]) -> None:
    """The locks of independent groups, in id order, before their units are looked at (W4)."""
    ids = sorted(set(group_ids))
    if ids:
        conn.execute(text(_LOCK_GROUPS), {"ids": ids}).all()


def take_rows(conn: Connection, rows: Sequence[WaitingRow], *, now: datetime) -> dict[int, TakenRow]:
    """Compare and set: those rows that are as the plan knew them become what it leaves of them."""
    rows = sorted(rows, key=lambda row: row.id)
    values = {
        "now": now,
        "ids": [row.id for row in rows],
        "versions": [row.version for row in rows],
        "attempts": [row.attempt for row in rows],
        "first_indexes": [row.first_index for row in rows],
        "used_up": [row.is_used_up for row in rows],
    }
    return {
        row.id: TakenRow(
            version=row.version,
            restarts_used=row.restarts_used,
            refused_dispatches=row.refused_dispatches,
            failed_nodes=row.failed_nodes,
        )
        for row in conn.execute(text(_TAKE), values)
    }


def read_limits(conn: Connection, group_ids: Iterable[int]) -> dict[int, Limits]:
    """Limits of these groups, as of now: their units are locked already."""
    rows = conn.execute(text(_LIMITS), {"ids": sorted(set(group_ids))})
    return {
        row.id: Limits(
            time_limit_seconds=row.time_limit_seconds, start_timeout_seconds=row.start_timeout_seconds
        )
        for row in rows
    }


def add_members(conn: Connection, members: Iterable[tuple[Admission, TakenRow]], *, now: datetime) -> None:
    """Rows for members that were split off a range which keeps waiting, or whose last is admitted."""
    copy_rows(
        conn,
        "units",
        columns=(*UNIT_COLUMNS, "admitted_at"),
        rows=(_unit_row(member, row, now=now) for member, row in members),
    )


def add_attempts(
    conn: Connection, attempts: Iterable[tuple[Admission, datetime | None, datetime | None]], *, now: datetime
) -> None:
    """Live attempts, to be dispatched: (admission, start deadline, time limit)."""
    copy_rows(
        conn,
        "attempts",
        columns=_ATTEMPT_COLUMNS,
        rows=(
            _attempt_row(admission, start_deadline_at=start, time_limit_at=limit, now=now)
            for admission, start, limit in attempts
        ),
    )


def add_held_devices(conn: Connection, admissions: Iterable[Admission]) -> None:
    """Who holds which device. Raises psycopg's UniqueViolation if one is held already (R6)."""
    rows = (
        (place.node_id, device, admission.unit_id)
        for admission in admissions
        for place in admission.places
        for device in place.devices
    )
    copy_rows(conn, "held_devices", columns=("node_id", "device", "unit_id"), rows=rows)


def _unit_row(member: Admission, row: TakenRow, *, now: datetime) -> tuple[Any, ...]:
    return (
        member.unit_id,
        member.group_id,
        member.index,
        member.index,
        Status.ADMITTED.value,
        member.attempt,
        1,
        False,
        row.restarts_used,
        row.refused_dispatches,
        row.failed_nodes,
        now,
    )


def _attempt_row(
    admission: Admission, *, start_deadline_at: datetime | None, time_limit_at: datetime | None, now: datetime
) -> tuple[Any, ...]:
    return (
        admission.unit_id,
        admission.attempt,
        1,
        1,
        admission.group_id,
        admission.queue_id,
        admission.pool_id,
        Jsonb(pack_places(admission.places)),
        Jsonb(dict(admission.usage)),
        "Waiting",
        0,
        now,
        start_deadline_at,
        time_limit_at,
    )
