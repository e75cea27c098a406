"""Queues and what they may hold, with the version of the whole configuration."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Identity,
    Index,
    Integer,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from service.domain.queue import Order, Stop
from service.store.models.schema import instant, metadata, one_of

config = Table(
    "config",
    metadata,
    Column("id", Integer, primary_key=True),
    Column(
        "version", BigInteger, nullable=False, comment="raised by every change of queues, pools, nodes (L2)"
    ),
    Column(
        "with_same_nodes",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="how many of these changes were of nothing about nodes, devices and pools",
    ),
    Column("scheduling", JSONB, nullable=False, server_default="{}", comment="SchedulingSettings"),
    CheckConstraint("id = 1", name="one_row"),
)
cohorts = Table(
    "cohorts",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("parent_id", BigInteger, ForeignKey("cohorts.id"), index=True),
    Column("weight", Float, nullable=False, server_default="1"),
    instant("created_at", nullable=False),
    CheckConstraint("weight >= 0", name="weight"),
    CheckConstraint("parent_id <> id", name="own_parent"),
)
queues = Table(
    "queues",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("name", Text, nullable=False),
    Column("tenant", Text, comment="who may submit; NULL for everybody"),
    Column("queue_order", Text, nullable=False),
    Column("stop", Text, nullable=False),
    Column("has_quota", Boolean, nullable=False, comment="false: no nominal quota at all"),
    Column("cohort_id", BigInteger, ForeignKey("cohorts.id"), index=True),
    Column("policy", JSONB, nullable=False, server_default="{}", comment="a QueuePolicy"),
    instant("created_at", nullable=False),
    instant("deleted_at"),
    Column(
        "deleting_at",
        DateTime(timezone=True),
        comment="since when it takes no groups: it goes once those that it has are over",
    ),
    CheckConstraint(one_of("queue_order", Order), name="queue_order"),
    CheckConstraint(one_of("stop", Stop), name="stop"),
    #: A deleted queue stays for its ended groups; its name is free.
    Index("uq_queues_name", "name", unique=True, postgresql_where=text("deleted_at IS NULL")),
)
quotas = Table(
    "quotas",
    metadata,
    Column("queue_id", BigInteger, ForeignKey("queues.id", ondelete="CASCADE"), primary_key=True),
    Column("resource", Text, primary_key=True, comment="flavor (GPUs), cpus (thousandths) or memory (MiB)"),
    Column("nominal", BigInteger),
    Column("hard_limit", BigInteger),
    Column("borrowing", BigInteger, comment="NULL: no bound"),
    Column("lending", BigInteger, comment="NULL: all of it"),
    CheckConstraint("nominal >= 0 AND hard_limit >= 0", name="not_negative"),
    CheckConstraint("borrowing >= 0 AND lending >= 0", name="limits_not_negative"),
    CheckConstraint("nominal <= hard_limit", name="nominal_within_limit"),
)
cohort_quotas = Table(
    "cohort_quotas",
    metadata,
    Column("cohort_id", BigInteger, ForeignKey("cohorts.id", ondelete="CASCADE"), primary_key=True),
    Column("resource", Text, primary_key=True, comment="flavor (GPUs), cpus (thousandths) or memory (MiB)"),
    Column("nominal", BigInteger),
    Column("borrowing", BigInteger, comment="NULL: no bound"),
    Column("lending", BigInteger, comment="NULL: all of it"),
    CheckConstraint("nominal >= 0 AND borrowing >= 0 AND lending >= 0", name="not_negative"),
)
priority_classes = Table(
    "priority_classes",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Integer, nullable=False),
)
