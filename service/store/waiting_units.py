"""Units that wait, changed by their owner: cancelled, split, held, released.

W4: a transaction locks the group's row and then, in a later statement, the units that it changes,
so what it reads cannot be split or admitted beside it. Updates are compare-and-set all the same.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from service.domain.status import Cause, Status
from service.domain.unit import unit_id


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedUnit:
    """A row of `units` that has not ended, locked until the transaction ends."""

    id: int
    group_id: int
    first_index: int
    last_index: int
    status: Status
    attempt: int
    version: int
    is_held: bool


def lock_group_units(conn: Connection, group_id: int, *, member: int | None = None) -> list[LockedUnit]:
    """Lock the group and those of its units that have not ended, or only the one with `member`."""
    conn.execute(_LOCK_GROUPS, {"ids": [group_id]})
    rows = conn.execute(_LOCK_UNITS, {"id": group_id, "member": member})
    return [_locked(row) for row in rows]


def lock_waiting_units(
    conn: Connection, group_ids: Collection[int], *, after_id: int, last_id: int
) -> list[LockedUnit]:
    """Lock these groups, and those of their rows that wait from behind the unit `after_id` up to `last_id`:
    also what was split from such a row in the meantime."""
    ids = sorted(group_ids)
    conn.execute(_LOCK_GROUPS, {"ids": ids})
    rows = conn.execute(_LOCK_WAITING, {"ids": ids, "after_id": after_id, "last_id": last_id})
    return [_locked(row) for row in rows]


def _locked(row: Row[Any]) -> LockedUnit:
    return LockedUnit(**(row._asdict() | {"status": Status(row.status)}))


_LOCK_GROUPS = text("SELECT FROM groups WHERE id = ANY(CAST(:ids AS bigint[])) ORDER BY id FOR NO KEY UPDATE")
_LOCK_UNITS = text(
    "SELECT id, group_id, first_index, last_index, status, attempt, version, is_held FROM units"
    " WHERE group_id = :id AND ended_at IS NULL"
    " AND (CAST(:member AS int) IS NULL OR CAST(:member AS int) BETWEEN first_index AND last_index)"
    " ORDER BY id FOR NO KEY UPDATE"
)
_LOCK_WAITING = text(
    "SELECT id, group_id, first_index, last_index, status, attempt, version, is_held FROM units"
    " WHERE group_id = ANY(CAST(:ids AS bigint[])) AND ended_at IS NULL AND status = 'Pending'"
    " AND id > :after_id AND id <= :last_id ORDER BY id FOR NO KEY UPDATE"
)


def cancel_waiting(conn: Connection, units: Sequence[LockedUnit], *, message: str, now: datetime) -> None:
    """Locked Pending units are Cancelled at once: they hold nothing."""
    _update(
        conn,
        units,
        change="status = 'Cancelled', ended_at = :now, cause = :cause, message = :message,"
        " is_held = false, held_at = NULL, backoff_until = NULL",
        values={"now": now, "cause": Cause.CANCELLED.value, "message": message},
    )


def cut_out_member(conn: Connection, unit: LockedUnit, *, member: int) -> tuple[LockedUnit, list[LockedUnit]]:
    """Split a locked waiting range so that `member` has a row of its own, still waiting.

    The row keeps the members behind it, so its id (its last index) stays. Returns the member's row
    and the others that were changed or made.
    """
    pieces = []
    if member > unit.first_index:
        pieces.append((unit.first_index, member - 1))
    if member < unit.last_index:
        pieces.append((member, member))
    first = min(member + 1, unit.last_index)
    _copy_range(conn, unit, pieces=pieces)
    _update(conn, [unit], change="first_index = :first_index", values={"first_index": first})
    rows = [
        replace(unit, first_index=first, version=unit.version + 1),
        *(
            replace(unit, id=unit_id(unit.group_id, last), first_index=first, last_index=last, version=1)
            for first, last in pieces
        ),
    ]
    own = next(row for row in rows if row.first_index == row.last_index == member)
    return own, [row for row in rows if row is not own]


def hold_units(conn: Connection, units: Sequence[LockedUnit], *, message: str, now: datetime) -> None:
    """Keep these locked units from being admitted until they are released."""
    change = "is_held = true, held_at = :now, message = :message"
    _update(conn, units, change=change, values={"message": message, "now": now})


def release_units(conn: Connection, units: Sequence[LockedUnit], *, now: datetime) -> None:
    """Let these locked units be admitted again. What held them is looked into: the nodes that failed
    them before count no more. The time for which they were held is no waiting: what they had waited before
    counts on."""
    change = f"is_held = false, held_at = NULL, message = NULL, failed_nodes = '{{}}', {_WAITED_BEFORE}"
    _update(conn, units, change=change, values={"now": now})


#: From when it was held, or began to wait in the middle of that, until now.
_WAITED_BEFORE = """
waiting_since = CASE WHEN u.held_at IS NULL OR u.status <> 'Pending' THEN u.waiting_since ELSE (
  SELECT w.since + GREATEST(interval '0', CAST(:now AS timestamptz) - GREATEST(u.held_at, w.since))
  FROM (SELECT COALESCE(u.waiting_since, g.submitted_at) FROM groups g WHERE g.id = u.group_id) AS w (since)
) END
"""


def _copy_range(conn: Connection, unit: LockedUnit, *, pieces: Sequence[tuple[int, int]]) -> None:
    """Rows for parts of a waiting range, alike in everything but the range."""
    if not pieces:
        return
    conn.execute(
        text(
            "INSERT INTO units (id, group_id, first_index, last_index, status, attempt, version, is_held,"
            " restarts_used, refused_dispatches, failed_nodes, backoff_until, waiting_since, held_at,"
            " open_dependencies, has_never_run, preempted_at, cause, message)"
            " SELECT (u.group_id << 20) | p.last_index, u.group_id, p.first_index, p.last_index, u.status,"
            " u.attempt, 1, u.is_held, u.restarts_used, u.refused_dispatches, u.failed_nodes,"
            " u.backoff_until, u.waiting_since, u.held_at, u.open_dependencies, u.has_never_run,"
            " u.preempted_at, u.cause, u.message"
            " FROM units u,"
            " unnest(CAST(:firsts AS int[]), CAST(:lasts AS int[])) AS p (first_index, last_index)"
            " WHERE u.id = :id"
        ),
        {
            "id": unit.id,
            "firsts": [first for first, _ in pieces],
            "lasts": [last for _, last in pieces],
        },
    )


def _update(conn: Connection, units: Sequence[LockedUnit], *, change: str, values: dict[str, object]) -> None:
    """Compare-and-set on (status, attempt, version), which rises (W4). A row that is not as it was
    locked means that somebody went around the lock: that is a fault, not a case."""
    if not units:
        return
    done = conn.execute(
        text(
            f"UPDATE units u SET {change}, version = u.version + 1"  # noqa: S608
            " FROM unnest(CAST(:ids AS bigint[]), CAST(:statuses AS text[]), CAST(:attempts AS int[]),"
            " CAST(:versions AS int[])) AS was (id, status, attempt, version)"
            " WHERE u.id = was.id AND u.status = was.status AND u.attempt = was.attempt"
            " AND u.version = was.version"
        ),
        {
            "ids": [unit.id for unit in units],
            "statuses": [unit.status.value for unit in units],
            "attempts": [unit.attempt for unit in units],
            "versions": [unit.version for unit in units],
        }
        | values,
    )
    if done.rowcount != len(units):
        raise RuntimeError(f"{len(units) - done.rowcount} of {len(units)} locked units had changed")
