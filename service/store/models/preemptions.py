"""Receipts of preemptions: who gave way, for whom, by what right, and whether it was of use."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    text,
)

from service.domain.preemption import Entitlement, PreemptionOutcome
from service.store.models.schema import instant, metadata, one_of

#: One for each attempt that gave way, and for each time that one gave up members; written by the leader only.
#: A receipt is kept as long as the group that gave way. The claimant's rows may be gone before: its ids are
#: kept, and no more.
preemptions = Table(
    "preemptions",
    metadata,
    Column("unit_id", BigInteger, primary_key=True, autoincrement=False),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column(
        "revision",
        Integer,
        primary_key=True,
        autoincrement=False,
        server_default="0",
        comment="with which it gave up members; 0: all of it gave way",
    ),
    Column("members", Integer, comment="how many it gave up; NULL: all of it gave way"),
    Column("group_id", BigInteger, ForeignKey("groups.id", ondelete="CASCADE"), nullable=False),
    Column("queue_id", BigInteger, ForeignKey("queues.id"), nullable=False),
    Column("claimant_unit_id", BigInteger, nullable=False, comment="the row that waited"),
    Column("claimant_group_id", BigInteger, nullable=False),
    Column("claimant_queue_id", BigInteger, ForeignKey("queues.id"), nullable=False),
    Column("entitlement", Text, nullable=False),
    Column("claimant_share_before", Float, nullable=False),
    Column("victim_share_before", Float, nullable=False),
    Column("claimant_share_after", Float, nullable=False),
    Column("victim_share_after", Float, nullable=False),
    Column("lost_gpu_seconds", Float, nullable=False),
    instant("decided_at", nullable=False),
    Column("outcome", Text, comment="NULL: the claimant still waits"),
    instant("outcome_at"),
    Column("outcome_cause", Text, comment="why it was wasted"),
    CheckConstraint(one_of("entitlement", Entitlement), name="entitlement"),
    CheckConstraint(one_of("outcome", PreemptionOutcome), name="outcome"),
    CheckConstraint("(revision = 0) = (members IS NULL)", name="members"),
    CheckConstraint("(outcome IS NULL) = (outcome_at IS NULL)", name="outcome_at"),
    CheckConstraint("(outcome_cause IS NOT NULL) = (outcome IS NOT DISTINCT FROM 'Wasted')", name="cause"),
    Index("ix_preemptions_group_id", "group_id"),
    Index("ix_preemptions_claimant_group_id", "claimant_group_id"),
    Index("ix_preemptions_decided_at", "decided_at", "unit_id"),
    Index("ix_preemptions_open", "claimant_unit_id", postgresql_where=text("outcome IS NULL")),
)
