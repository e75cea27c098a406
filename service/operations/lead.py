"""Take, keep and give up the lease of the one leader (L1, L3). Instants come from the caller."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Connection

from service.store import lease as leases

#: How long a takeover waits for the old holder's backend to end.
_END_WAIT_SECONDS = 5.0


def take_lease(
    conn: Connection,
    *,
    holder: str,
    now: datetime,
    lease_seconds: float,
    above: int = 0,
    from_the_gone: bool = False,
) -> int | None:
    """Take the lease through this connection, if it has expired or is the holder's own; the new
    epoch, or None while somebody else has it.

    `above` is an epoch known from elsewhere (the ledger) that the new one has to exceed, which
    matters when an older PostgreSQL has been restored. With `from_the_gone` a lease whose holder
    has lost its connection is free at once: through that connection it cannot write any more, and
    it would need a new epoch for another one (W3).
    """
    with conn.begin():
        # 1. Only one at a time decides who leads.
        lease = leases.lock_lease(conn)
        is_free = lease.holder == holder or lease.expires_at <= now or not lease.holder
        if not is_free and not (from_the_gone and not lease.has_backend):
            return None
        # 2. The old holder can write nothing any more (L3).
        leases.end_holders_backend(conn, wait_seconds=_END_WAIT_SECONDS)
        # 3. A new epoch, and its expiry.
        epoch = max(lease.epoch, above) + 1
        leases.raise_epoch(conn, epoch, holder=holder)
        leases.start_expiry(conn, epoch, expires_at=now + timedelta(seconds=lease_seconds))
    return epoch


def renew_lease(conn: Connection, *, epoch: int, now: datetime, lease_seconds: float) -> bool:
    """Prolong the lease of `epoch`; False when a later epoch has it. Never waits for a cycle (L1)."""
    with conn.begin():
        return leases.move_expiry(conn, epoch, expires_at=now + timedelta(seconds=lease_seconds))


def give_up_lease(conn: Connection, *, epoch: int, now: datetime) -> bool:
    """Let the next one lead at once, when this leader ends in good order."""
    with conn.begin():
        return leases.move_expiry(conn, epoch, expires_at=now)


def get_settled_lease(conn: Connection) -> leases.Lease:
    """Who leads, once a takeover that is under way has ended: for a leader that lost its connection."""
    with conn.begin():
        return leases.lock_lease(conn)
