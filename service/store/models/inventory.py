"""Pools, their nodes and the devices on them."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Identity,
    Integer,
    Table,
    Text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from service.store.models.schema import instant, metadata

pools = Table(
    "pools",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("launcher", Text, nullable=False, comment="local, simulated, kubernetes"),
    Column("levels", ARRAY(Text), nullable=False, comment="topology levels, outermost first, host last"),
    instant("unreachable_at"),
    Column(
        "can_resize",
        Boolean,
        nullable=False,
        server_default="false",
        comment="its launcher starts and stops single members of a group that runs",
    ),
)
nodes = Table(
    "nodes",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("pool_id", BigInteger, ForeignKey("pools.id"), nullable=False, index=True),
    Column("cpus_milli", BigInteger, nullable=False),
    Column("memory_mib", BigInteger, nullable=False),
    Column("labels", JSONB, nullable=False),
    Column("is_ready", Boolean, nullable=False),
    Column("is_cordoned", Boolean, nullable=False),
    instant("drain_at"),
    Column("boot_id", Text),
    instant("updated_at", nullable=False),
    CheckConstraint("cpus_milli >= 0 AND memory_mib >= 0", name="not_negative"),
)
devices = Table(
    "devices",
    metadata,
    Column("node_id", BigInteger, ForeignKey("nodes.id", ondelete="CASCADE"), primary_key=True),
    Column("device", Integer, primary_key=True),
    Column("model", Text, nullable=False),
    Column("memory_mib", BigInteger, nullable=False),
    Column("uuid", Text),
    Column("is_healthy", Boolean, nullable=False),
    instant("lost_at"),
    Column("lost_note", Text, comment="which unit and attempt could not be ended here (X5)"),
    Column("lost_boot_id", Text),
)
