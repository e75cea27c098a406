"""Charging: closed attempts are taken into the ledger of usage, a little at a time, each once."""

from __future__ import annotations

from sqlalchemy import Connection, Engine

from service.points import reach
from service.store.usage_ledger import charge_some, drop_old_runtimes, has_uncharged, set_half_life

#: One transaction takes up so many.
MOST_ATTEMPTS = 2_000


def charge_closed_attempts(engine: Engine) -> int:
    """One step, in a transaction of its own; how many attempts were charged. A step that is cut off has
    charged none, and is made again."""
    with engine.begin() as conn:
        if not has_uncharged(conn):
            return 0
        attempts, owners = charge_some(conn, limit=MOST_ATTEMPTS)
        if owners:
            drop_old_runtimes(conn, owners)
        reach("ticker.usage-written")
    return attempts


def ensure_half_life(conn: Connection, half_life_seconds: float) -> bool:
    """Let the ledger decay by this; True if it did not. A leader does so before it reads the ledger."""
    with conn.begin():
        return set_half_life(conn, half_life_seconds)
