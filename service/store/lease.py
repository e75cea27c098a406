"""The leader's lease: who leads, in which epoch, through which backend, and until when.

The epoch and the expiry are rows of their own, so that renewing never waits for a transaction that
holds the epoch (L1).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """`has_backend`: the connection through which the holder writes is still open."""

    epoch: int
    holder: str
    expires_at: datetime
    has_backend: bool


_READ = """
SELECT l.epoch, l.holder, e.expires_at, a.pid IS NOT NULL
FROM leadership l
JOIN leadership_expiry e ON e.id = l.id
LEFT JOIN pg_stat_activity a ON a.pid = l.backend_pid AND a.backend_start = l.backend_start
WHERE l.id = 1
"""
_LOCK = "SELECT id FROM leadership_expiry WHERE id = 1 FOR UPDATE"
_END_BACKEND = """
SELECT pg_terminate_backend(a.pid, :wait_ms)
FROM pg_stat_activity a, leadership l
WHERE l.id = 1 AND a.pid = l.backend_pid AND a.backend_start = l.backend_start
  AND a.pid <> pg_backend_pid()
"""
_RAISE = """
UPDATE leadership SET epoch = :epoch, holder = :holder, backend_pid = pg_backend_pid(),
  backend_start = (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid())
WHERE id = 1
"""


def get_lease(conn: Connection) -> Lease:
    """The lease as it stands, without waiting for anybody."""
    epoch, holder, expires_at, has_backend = conn.execute(text(_READ)).one()
    return Lease(epoch=epoch, holder=holder, expires_at=expires_at, has_backend=has_backend)


def lock_lease(conn: Connection) -> Lease:
    """The lease, locked against everybody else who would take it."""
    conn.execute(text(_LOCK))
    return get_lease(conn)


def end_holders_backend(conn: Connection, *, wait_seconds: float) -> None:
    """End the backend through which the holder writes, and wait for its end (L3).

    A leader that was stopped in the middle of COPY keeps its row locks for ever; timeouts and
    cancelling do not free them, ending its backend does.
    """
    conn.execute(text(_END_BACKEND), {"wait_ms": int(wait_seconds * 1000)})


def raise_epoch(conn: Connection, epoch: int, *, holder: str) -> None:
    """Name this connection's backend as the leader's. Waits for a transaction that holds the old
    epoch, so its outcome is known afterwards (L4)."""
    conn.execute(text(_RAISE), {"epoch": epoch, "holder": holder})


def start_expiry(conn: Connection, epoch: int, *, expires_at: datetime) -> None:
    """Give the lease of a new epoch its first expiry."""
    statement = "UPDATE leadership_expiry SET epoch = :epoch, expires_at = :at WHERE id = 1"
    conn.execute(text(statement), {"epoch": epoch, "at": expires_at})


def move_expiry(conn: Connection, epoch: int, *, expires_at: datetime) -> bool:
    """Renew, or give up, the lease of `epoch`; False if a later epoch has it."""
    statement = "UPDATE leadership_expiry SET expires_at = :at WHERE id = 1 AND epoch = :epoch"
    return conn.execute(text(statement), {"epoch": epoch, "at": expires_at}).rowcount == 1


@dataclass(frozen=True, slots=True)
class Fence:
    """What a cycle's transaction may not outlive: the epoch and the configuration's version (L2)."""

    epoch: int
    config_version: int
