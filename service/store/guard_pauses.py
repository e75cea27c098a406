"""When guards stood still, as it is stored: read with the World, written with what a cycle decided (L2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from sqlalchemy import Connection, text

from service.admission.pauses import GuardPause, Halted, Pauses
from service.store.arrays import number_array

_READ = "SELECT queue_id, began_at, ended_at, shape_ids, unit_ids, moving FROM guard_pauses"
_DROP = """
DELETE FROM guard_pauses p
USING unnest(%(queues)s::bigint[], %(begun)s::timestamptz[]) AS d (queue_id, began_at)
WHERE p.queue_id = d.queue_id AND p.began_at = d.began_at
"""
#: Arrays as texts: an array of arrays would have to be a rectangle. A queue that was dropped has none.
_MAKE = """
INSERT INTO guard_pauses (queue_id, began_at, ended_at, shape_ids, unit_ids, moving)
SELECT p.queue_id, p.began_at, p.ended_at, p.shape_ids::bigint[], p.unit_ids::bigint[], p.moving::bigint[]
FROM unnest(%(queues)s::bigint[], %(begun)s::timestamptz[], %(ended)s::timestamptz[], %(shapes)s::text[],
            %(units)s::text[], %(moving)s::text[])
  AS p (queue_id, began_at, ended_at, shape_ids, unit_ids, moving)
JOIN queues q ON q.id = p.queue_id
ON CONFLICT (queue_id, began_at) DO UPDATE SET ended_at = excluded.ended_at,
  shape_ids = excluded.shape_ids, unit_ids = excluded.unit_ids, moving = excluded.moving
"""


def read_guard_pauses(conn: Connection, queue_id: int | None = None) -> dict[int, Pauses]:
    """By queue, in the order of time: of all, or of one."""
    where = "" if queue_id is None else " WHERE queue_id = :queue_id"
    rows = conn.execute(text(f"{_READ}{where} ORDER BY queue_id, began_at"), {"queue_id": queue_id})
    found: dict[int, list[GuardPause]] = defaultdict(list)
    for row in rows:
        moving = None if row.moving is None else tuple(row.moving)
        found[row.queue_id].append(
            GuardPause(
                queue_id=row.queue_id,
                began_at=row.began_at,
                ended_at=row.ended_at,
                halted=Halted(tuple(row.shape_ids), tuple(row.unit_ids), moving),
            )
        )
    return {key: tuple(pauses) for key, pauses in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """A row that waits, and `since` when it could have been admitted."""

    unit_id: int
    queue_id: int
    shape_id: int
    since: datetime


def find_guarded(conn: Connection, group_id: int) -> Guarded | None:
    """The first row of the group that waits; those that are held or back off come last."""
    row = conn.execute(
        text(
            "SELECT u.id AS unit_id, g.queue_id, g.shape_id,"
            " COALESCE(u.waiting_since, g.submitted_at) AS since"
            " FROM units u JOIN groups g ON g.id = u.group_id"
            " WHERE u.group_id = :group_id AND u.ended_at IS NULL AND u.status = 'Pending'"
            " ORDER BY u.is_held, u.backoff_until NULLS FIRST, u.first_index LIMIT 1"
        ),
        {"group_id": group_id},
    ).one_or_none()
    return None if row is None else Guarded(**row._mapping)


def write_guard_pauses(
    driver: psycopg.Connection[Any],
    *,
    made: Sequence[GuardPause],
    dropped: Collection[tuple[int, datetime]],
) -> None:
    """In the transaction, and the pipeline, of a cycle."""
    if dropped:
        gone = sorted(dropped)
        driver.execute(
            _DROP,
            {"queues": number_array(queue_id for queue_id, _ in gone), "begun": [begun for _, begun in gone]},
        )
    if made:
        driver.execute(
            _MAKE,
            {
                "queues": number_array(pause.queue_id for pause in made),
                "begun": [pause.began_at for pause in made],
                "ended": [pause.ended_at for pause in made],
                "shapes": [number_array(pause.halted.shape_ids) for pause in made],
                "units": [number_array(pause.halted.unit_ids) for pause in made],
                "moving": [
                    None if pause.halted.moving is None else number_array(pause.halted.moving)
                    for pause in made
                ],
            },
        )
