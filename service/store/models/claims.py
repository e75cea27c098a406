"""What the leader keeps from cycle to cycle: claims, and the pauses of guards."""

from __future__ import annotations

from sqlalchemy import ARRAY, BigInteger, CheckConstraint, Column, DateTime, ForeignKey, Integer, Table, Text
from sqlalchemy.dialects.postgresql import JSONB

from service.domain.claim import ClaimCause
from service.store.models.schema import instant, metadata, one_of

#: Written by the leader alone, in the transaction of its cycle (L2).
claims = Table(
    "claims",
    metadata,
    Column(
        "unit_id",
        BigInteger,
        ForeignKey("units.id", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    ),
    Column("cause", Text, nullable=False),
    instant("made_at", nullable=False),
    Column(
        "due_at",
        DateTime(timezone=True),
        comment="when its places should be free; NULL: somebody on them has no time limit",
    ),
    Column("places", JSONB, nullable=False, comment="[[member, role, node_id, [device, ...]], ...]"),
    Column("redated", Integer, nullable=False, comment="dates that passed"),
    CheckConstraint(one_of("cause", ClaimCause), name="cause"),
    CheckConstraint("redated >= 0", name="redated"),
)
#: When guards of a queue stood still, because something else than places was missing. Written as claims are.
guard_pauses = Table(
    "guard_pauses",
    metadata,
    Column(
        "queue_id",
        BigInteger,
        ForeignKey("queues.id", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    ),
    Column("began_at", DateTime(timezone=True), primary_key=True),
    Column("ended_at", DateTime(timezone=True), comment="NULL: it goes on"),
    Column("shape_ids", ARRAY(BigInteger), nullable=False, comment="classes whose guards stood still"),
    Column("unit_ids", ARRAY(BigInteger), nullable=False, comment="single rows that wait whose guard did"),
    Column("moving", ARRAY(BigInteger), comment="not NULL: all guards of the queue, but those of these rows"),
    CheckConstraint("ended_at > began_at", name="order"),
)
