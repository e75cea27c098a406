"""The lease of a pool's dispatcher (D1): one epoch row, and its expiry in a row of its own, so that
renewing never waits for a transaction that holds the epoch."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import psycopg
from sqlalchemy import Connection, text

from service.store.pipe import Pipe, compact, one_trip


class LeaseLost(Exception):
    """Another dispatcher has taken the pool: nothing of this one's memory is worth anything."""


def take_lease(
    conn: Connection, pool_id: int, *, holder: str, now: datetime, lease_seconds: float
) -> int | None:
    """Become the dispatcher of the pool; the new epoch, or None while somebody else holds it.

    The lease is free when it has expired or when its holder's database backend is gone, so that a
    killed dispatcher is replaced at once. A holder that is frozen is ended first: a backend that is
    stopped in the middle of COPY keeps its row lock for ever (as for the leader, L3).
    """
    _ensure_rows(conn, pool_id)
    seen = conn.execute(_SEEN, {"pool_id": pool_id}).one()
    if seen.is_alive and not seen.is_mine:
        if seen.expires_at > now:
            return None
        conn.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": seen.backend_pid})
    epoch: int | None = conn.execute(
        _TAKE, {"pool_id": pool_id, "epoch": seen.epoch, "holder": holder}
    ).scalar()
    if epoch is not None:
        _set_expiry(conn, pool_id, epoch=epoch, expires_at=now + timedelta(seconds=lease_seconds))
    return epoch


def renew_lease(conn: Connection, pool_id: int, *, epoch: int, now: datetime, lease_seconds: float) -> bool:
    """Keep the lease for another `lease_seconds`; False if it is another dispatcher's by now."""
    changed = conn.execute(
        text(
            "UPDATE dispatcher_expiries SET expires_at = GREATEST(expires_at, :expires_at)"
            " WHERE pool_id = :pool_id AND epoch = :epoch"
        ),
        {"pool_id": pool_id, "epoch": epoch, "expires_at": now + timedelta(seconds=lease_seconds)},
    )
    return changed.rowcount == 1


def check_epoch(conn: Connection, pool_id: int, *, epoch: int) -> None:
    """D1: every writing transaction reads the epoch FOR SHARE. Raises LeaseLost."""
    with one_trip(conn) as pipe:
        read = send_epoch(pipe, pool_id)
    require_epoch(read, pool_id, epoch=epoch)


def send_epoch(pipe: Pipe, pool_id: int) -> psycopg.RawCursor[Any]:
    """`check_epoch` as part of a trip; `require_epoch` reads the answer."""
    return pipe.run(_EPOCH, pool_id)


def require_epoch(read: psycopg.RawCursor[Any], pool_id: int, *, epoch: int) -> None:
    """Raises LeaseLost unless it is still this one."""
    if read.fetchone() != (epoch,):
        raise LeaseLost(f"epoch {epoch} of pool {pool_id} is over")


def _ensure_rows(conn: Connection, pool_id: int) -> None:
    conn.execute(
        text(
            "INSERT INTO dispatcher_leases (pool_id, epoch, holder) VALUES (:pool_id, 0, '')"
            " ON CONFLICT DO NOTHING"
        ),
        {"pool_id": pool_id},
    )
    conn.execute(
        text(
            "INSERT INTO dispatcher_expiries (pool_id, epoch, expires_at)"
            " VALUES (:pool_id, 0, '1970-01-01Z') ON CONFLICT DO NOTHING"
        ),
        {"pool_id": pool_id},
    )


def _set_expiry(conn: Connection, pool_id: int, *, epoch: int, expires_at: datetime) -> None:
    conn.execute(
        text(
            "UPDATE dispatcher_expiries SET epoch = :epoch, expires_at = :expires_at WHERE pool_id = :pool_id"
        ),
        {"pool_id": pool_id, "epoch": epoch, "expires_at": expires_at},
    )


_EPOCH = compact("SELECT epoch FROM dispatcher_leases WHERE pool_id = $1 FOR SHARE")

_SEEN = text("""
    SELECT l.epoch, l.backend_pid, e.expires_at,
           COALESCE(l.backend_pid = pg_backend_pid(), false) AS is_mine,
           EXISTS (SELECT FROM pg_stat_activity s
                   WHERE s.pid = l.backend_pid AND s.backend_start = l.backend_start) AS is_alive
    FROM dispatcher_leases l JOIN dispatcher_expiries e USING (pool_id)
    WHERE l.pool_id = :pool_id
""")

_TAKE = text("""
    UPDATE dispatcher_leases
    SET epoch = epoch + 1, holder = :holder, backend_pid = pg_backend_pid(),
        backend_start = (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid())
    WHERE pool_id = :pool_id AND epoch = :epoch
    RETURNING epoch
""")
