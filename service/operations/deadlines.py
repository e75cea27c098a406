"""What falls due by the clock alone: drains, and the instant at which to look again."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, text

from service.domain.status import Cause, Status
from service.operations.dispatch import PoolFence
from service.operations.evict import Evicted, evict_units
from service.store.attempts import lock_units


def evict_drained(fence: PoolFence, *, now: datetime) -> Evicted:
    """Evict each unit with a place on a node whose drain is due: a gang whole, of an independent group
    the members there. They are queued again at once; it uses up no restart."""
    if not _find_due(fence, now):
        return Evicted()
    units: list[int] = []
    with fence.transaction() as conn:
        # An uncordon that came first takes its units out; one that comes later waits for this.
        due = _lock_due(conn, fence.pool_id, now=now)
        # W4: of all nodes at once, for the order of ids holds for the whole transaction.
        lock_units(conn, {unit for on_node in due.values() for unit in on_node})
        for name, on_node in due.items():
            evicted = evict_units(
                conn,
                on_node,
                target=Status.PENDING,
                cause=Cause.INFRASTRUCTURE,
                message=f"Node {name} is drained.",
                now=now,
            )
            units += evicted.unit_ids
    return Evicted(unit_ids=tuple(units), pool_ids=frozenset({fence.pool_id} if units else ()))


def _find_due(fence: PoolFence, now: datetime) -> bool:
    """Mostly no drain is due, and then nothing else is looked at."""
    values = {"pool_id": fence.pool_id, "now": now}
    with fence.conn.begin():
        if fence.conn.execute(_DRAINED, values).first() is None:
            return False
        return fence.conn.execute(_DUE, values).first() is not None


def _lock_due(conn: Connection, pool_id: int, *, now: datetime) -> dict[str, list[int]]:
    """Units to evict by the name of their drained node."""
    values = {"pool_id": pool_id, "now": now}
    conn.execute(_LOCK_NODES, values)
    due: dict[str, list[int]] = {}
    for row in conn.execute(_DUE, values):
        due.setdefault(row.name, []).append(row.unit_id)
    return due


_DRAINED = text("SELECT FROM nodes WHERE pool_id = :pool_id AND is_cordoned AND drain_at <= :now LIMIT 1")

_LOCK_NODES = text("""
    SELECT id FROM nodes WHERE pool_id = :pool_id AND is_cordoned AND drain_at <= :now
    ORDER BY id FOR SHARE
""")

_DUE = text("""
    SELECT a.unit_id, n.name
    FROM nodes n JOIN attempts a ON a.pool_id = n.pool_id
    WHERE n.pool_id = :pool_id AND n.is_cordoned AND n.drain_at <= :now AND a.evict_target IS NULL
      AND EXISTS (SELECT FROM jsonb_array_elements(a.places) AS place
                  WHERE CAST(place ->> 2 AS bigint) = n.id)
    ORDER BY a.unit_id
""")
