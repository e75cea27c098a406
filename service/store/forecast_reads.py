"""What a forecast rests on: who is on the places that are kept for a group, how long groups ran, and how long
those waited that started lately."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, text

from service.domain.events import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderRow:
    """A unit that holds GPUs which are kept for another. `running_at` None: it has not come to run yet.
    `frees_at`: its enforced end with grace."""

    unit_id: int
    queue_id: int
    tenant: str
    owner: str
    admitted_at: datetime
    running_at: datetime | None
    frees_at: datetime | None


def list_holders_of_claim(conn: Connection, group_id: int) -> list[HolderRow]:
    """On the GPUs of the claim of a group, of an independent one of its first member with one."""
    rows = conn.execute(_HOLDERS, {"group_id": group_id})
    return [
        HolderRow(
            unit_id=row.unit_id,
            queue_id=row.queue_id,
            tenant=row.tenant,
            owner=row.owner,
            admitted_at=row.admitted_at,
            running_at=row.running_at,
            frees_at=row.kill_at or _with_grace(row.time_limit_at, row.grace_seconds),
        )
        for row in rows
    ]


class Wait(NamedTuple):
    """How long something of this shape waited until it was admitted first, in seconds."""

    shape_id: int
    seconds: float


def list_waits(conn: Connection, queue_id: int) -> list[Wait]:
    """Of those of the queue that were admitted lately."""
    rows = conn.execute(_WAITS, {"queue_id": queue_id})
    return [Wait(row.shape_id, float(row.seconds)) for row in rows]


def _with_grace(limit_at: datetime | None, grace_seconds: int) -> datetime | None:
    return None if limit_at is None else limit_at + timedelta(seconds=grace_seconds)


_HOLDERS = text("""
WITH claim AS (
  SELECT c.places FROM units u JOIN claims c ON c.unit_id = u.id
  WHERE u.group_id = :group_id AND u.ended_at IS NULL AND u.status = 'Pending'
  ORDER BY u.first_index LIMIT 1
), kept AS (
  SELECT (place -> 2)::bigint AS node_id, device::int AS device
  FROM claim, jsonb_array_elements(claim.places) place, jsonb_array_elements(place -> 3) device
), holders AS (
  SELECT DISTINCT h.unit_id FROM kept k JOIN held_devices h ON h.node_id = k.node_id AND h.device = k.device
)
SELECT a.unit_id, a.queue_id, g.tenant, g.owner, a.admitted_at, a.running_at, a.time_limit_at, a.kill_at,
  g.grace_seconds
FROM holders h JOIN attempts a ON a.unit_id = h.unit_id JOIN groups g ON g.id = a.group_id
ORDER BY a.unit_id
""")
#: From the newest events, and no more of them: the read does not grow with history.
_WAITS = text(f"""
SELECT g.shape_id,
  greatest(0, extract(epoch FROM e.at - greatest(g.submitted_at, g.not_before_at))) AS seconds
FROM (SELECT at, kind, attempt, group_id FROM events ORDER BY id DESC LIMIT 20000) e
JOIN groups g ON g.id = e.group_id AND g.queue_id = :queue_id
WHERE e.kind = '{Kind.ADMITTED}' AND e.attempt = 1
""")  # noqa: S608
