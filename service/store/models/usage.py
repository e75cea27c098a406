"""What owners have used: the ledger of fair share, and how long their groups ran."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
)

from service.store.models.schema import HOT, instant, metadata

#: Closed attempts that the ledger has not taken up. A row comes with the closed attempt, in the statement
#: that closes it, and goes in the transaction that charges it: so each is charged exactly once, and
#: dispatchers of different pools wait for no row of an owner.
uncharged_attempts = Table(
    "uncharged_attempts",
    metadata,
    Column("unit_id", BigInteger, primary_key=True),
    Column("attempt", Integer, primary_key=True),
)
#: Amounts times seconds: GPUs of a flavor, thousandths of a CPU, MiB.
usage = Table(
    "usage",
    metadata,
    Column("queue_id", BigInteger, ForeignKey("queues.id"), primary_key=True),
    Column("tenant", Text, primary_key=True),
    Column("owner", Text, primary_key=True),
    Column("resource", Text, primary_key=True),
    Column("held_seconds", Float, nullable=False, comment="all that closed attempts held"),
    Column("lost_seconds", Float, nullable=False, comment="of it what the platform lost: not charged"),
    Column("decayed_seconds", Float, nullable=False, comment="what was charged, decayed to as_of"),
    instant("as_of", nullable=False),
    **HOT,
)
usage_decay = Table(
    "usage_decay",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("half_life_seconds", Float, nullable=False, comment="of decayed_seconds; 0: it is not kept"),
    CheckConstraint("id = 1", name="one_row"),
    CheckConstraint("half_life_seconds >= 0", name="not_negative"),
)
#: The newest of each owner in each queue, so that quantiles cost the same whatever the past.
runtimes = Table(
    "runtimes",
    metadata,
    Column("unit_id", BigInteger, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("queue_id", BigInteger, ForeignKey("queues.id"), nullable=False),
    Column("tenant", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("seconds", Float, nullable=False, comment="from Running to the end"),
    Column("is_cut", Boolean, nullable=False, comment="it ran into its time limit, and would have run on"),
    instant("ended_at", nullable=False),
    Index("ix_runtimes_owner", "queue_id", "tenant", "owner", "ended_at"),
    Index("ix_runtimes_queue", "queue_id", "ended_at"),
    Index("ix_runtimes_all", "ended_at"),
)
