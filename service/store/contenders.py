"""Who stands before a group that might be submitted: what a cycle would consider before it, in part."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from service.admission.waiting import ranks
from service.admission.world import PendingUnit
from service.domain.queue import OrderBy
from service.store.arrays import number_array
from service.store.ground import Entry
from service.store.order import length_of
from service.store.unit_rows import pending_units, waiting_statement

#: Rows of its own queue, and of all others together, that are looked at.
_OWN, _OTHERS = 1_000, 1_000

#: Held back rows block nobody. Of each other queue come those that come first there.
_BEFORE = text(f"""
WITH waiting AS (
  SELECT u.id, g.queue_id, g.priority, row_number() OVER (
    PARTITION BY g.queue_id
    ORDER BY g.priority DESC, {length_of("g")}, g.submitted_at, g.id, u.first_index) AS place
  FROM units u JOIN groups g ON g.id = u.group_id JOIN queues q ON q.id = g.queue_id
  WHERE u.status = 'Pending' AND u.ended_at IS NULL AND NOT u.is_held AND u.open_dependencies IS NULL
)
SELECT id FROM waiting
WHERE CASE WHEN queue_id = :queue_id THEN priority >= :priority AND place <= :own
  ELSE place <= GREATEST(1, :others / (SELECT count(*) FROM queues WHERE deleted_at IS NULL)) END
UNION SELECT unit_id FROM claims
""")  # noqa: S608
_AHEAD = text(f"""
SELECT count(DISTINCT g.id) FROM units u
JOIN groups g ON g.id = u.group_id JOIN queues q ON q.id = g.queue_id
WHERE g.queue_id = :queue_id AND (g.priority > :priority OR (g.priority = :priority AND (
  {length_of("g")} <= :length)))
  AND u.status = 'Pending' AND u.ended_at IS NULL AND NOT u.is_held AND u.open_dependencies IS NULL
  AND (u.backoff_until IS NULL OR u.backoff_until <= :now)
  AND (g.not_before_at IS NULL OR g.not_before_at <= :now)
""")  # noqa: S608
_QUEUE = text("""
SELECT c.version, q.id FROM config c LEFT JOIN queues q
  ON q.name = :name AND q.deleted_at IS NULL AND q.deleting_at IS NULL
  AND (:is_operator OR q.tenant IS NULL OR q.tenant = :tenant)
WHERE c.id = 1
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueNow:
    """`queue_id` None: there is none that the key may submit to."""

    config_version: int
    queue_id: int | None


def look_at_queue(conn: Connection, entry: Entry) -> QueueNow:
    """Locks nothing: it may be deleted at any time."""
    name, tenant, is_operator = entry
    row = conn.execute(_QUEUE, {"name": name, "tenant": tenant, "is_operator": is_operator}).one()
    return QueueNow(config_version=row.version, queue_id=row.id)


def read_contenders(conn: Connection, *, queue_id: int, priority: int) -> dict[int, PendingUnit]:
    """The first of those that a cycle would consider before a group that is submitted now with this
    priority, and everybody for whom places are kept. Bounded in number, however much waits."""
    found = conn.execute(
        _BEFORE, {"queue_id": queue_id, "priority": priority, "own": _OWN, "others": _OTHERS}
    )
    ids = number_array(found.scalars())
    rows = conn.exec_driver_sql(waiting_statement("%(ids)s::bigint[]"), {"ids": ids})
    return pending_units(tuple(row) for row in rows)


def count_ahead(conn: Connection, row: PendingUnit, *, order_by: OrderBy, now: datetime) -> int:
    """Groups of its queue that would have a position before a group that is submitted now."""
    values = {
        "queue_id": row.queue_id,
        "priority": row.priority,
        "length": ranks.length_of(row, order_by),
        "now": now,
    }
    return int(conn.execute(_AHEAD, values).scalar_one())
