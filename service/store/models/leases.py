"""Who leads, and who serves each pool: one row each, with its expiry apart."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Integer, Table, Text

from service.store.models.schema import instant, metadata

leadership = Table(
    "leadership",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    Column("backend_pid", Integer),
    instant("backend_start"),
    CheckConstraint("id = 1", name="one_row"),
)
#: Apart from the epoch, so that renewing never waits for a transaction that holds it (L1).
leadership_expiry = Table(
    "leadership_expiry",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    instant("expires_at", nullable=False),
    CheckConstraint("id = 1", name="one_row"),
)
dispatcher_leases = Table(
    "dispatcher_leases",
    metadata,
    Column("pool_id", BigInteger, ForeignKey("pools.id", ondelete="CASCADE"), primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    Column("backend_pid", Integer),
    instant("backend_start"),
)
dispatcher_expiries = Table(
    "dispatcher_expiries",
    metadata,
    Column("pool_id", BigInteger, ForeignKey("pools.id", ondelete="CASCADE"), primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    instant("expires_at", nullable=False),
)
