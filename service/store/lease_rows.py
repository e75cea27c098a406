"""Who holds which lease, for /metrics: read without waiting for anybody."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRow:
    """A lease of a `process` (worker, dispatcher). `pool` is empty for the leader's. `expires_at` None:
    nobody ever held it."""

    process: str
    pool: str
    epoch: int
    holder: str
    expires_at: datetime | None


def list_leases(conn: Connection) -> tuple[LeaseRow, ...]:
    """The leader's lease, and that of each pool."""
    rows = conn.execute(
        text(
            "SELECT 'worker' AS process, '' AS pool, l.epoch, l.holder, e.expires_at"
            " FROM leadership l LEFT JOIN leadership_expiry e ON e.id = l.id AND e.epoch = l.epoch"
            " UNION ALL"
            " SELECT 'dispatcher', p.name, COALESCE(l.epoch, 0), COALESCE(l.holder, ''), e.expires_at"
            " FROM pools p LEFT JOIN dispatcher_leases l ON l.pool_id = p.id"
            " LEFT JOIN dispatcher_expiries e ON e.pool_id = p.id AND e.epoch = l.epoch ORDER BY 1, 2"
        )
    )
    return tuple(LeaseRow(**row._mapping) for row in rows)
