"""What happened, in order, for people and for the feed."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Identity, Index, Integer, Table, Text, func, text
from sqlalchemy.dialects.postgresql import JSONB

from service.store.models.schema import TransactionId, instant, metadata

events = Table(
    "events",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("xid", TransactionId, nullable=False, server_default=func.pg_current_xact_id()),
    Column("is_feed", Boolean, nullable=False, comment="changes decisions, and is not the leader's own (W1)"),
    instant("at", nullable=False),
    Column("kind", Text, nullable=False),
    Column("group_id", BigInteger),
    Column("unit_id", BigInteger),
    Column("node_id", BigInteger),
    Column("attempt", Integer),
    Column("generation", Integer),
    Column("cause", Text),
    Column("actor", Text),
    Column("data", JSONB),
    Index("ix_events_feed", "xid", postgresql_where=text("is_feed")),
    Index("ix_events_group_id", "group_id", "id"),
)
