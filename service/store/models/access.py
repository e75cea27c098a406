"""Who may call."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, Identity, LargeBinary, Table, Text, Uuid

from service.store.models.schema import instant, metadata

keys = Table(
    "keys",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("public_id", Uuid, nullable=False, unique=True),
    Column("digest", LargeBinary, nullable=False, unique=True, comment="SHA-256 of the key"),
    Column("tenant", Text, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("role", Text, nullable=False),
    instant("created_at", nullable=False),
    instant("revoked_at"),
    CheckConstraint("role IN ('user', 'operator', 'admin')", name="role"),
)
