"""Engines: pooled connections to PostgreSQL with the limits that each kind of process wants."""

from __future__ import annotations

from sqlalchemy import Engine, create_engine

#: Idle transactions and lock waits are bounded, so that a frozen process cannot stop the others
#: for ever. The leader's own connection has looser bounds; its lease bounds it (L1, L3).
_SESSION = {
    "statement_timeout": "30s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
    "timezone": "UTC",
}


def make_engine(url: str, *, pool_size: int = 5, application_name: str = "muster") -> Engine:
    """A pool of at most `pool_size` connections that are checked before use.

    `url` names the driver: postgresql+psycopg://. Raises sqlalchemy's OperationalError on use when
    the server is away; waiting for a connection is bounded by five seconds.
    """
    options = " ".join(f"-c {name}={value}" for name, value in _SESSION.items())
    return create_engine(
        url,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=5,
        pool_pre_ping=True,
        connect_args={"connect_timeout": 3, "options": options, "application_name": application_name},
    )
