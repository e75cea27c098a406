"""Which groups wait for the end of others."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Table, Text

from service.domain.dependency import When
from service.store.models.schema import instant, metadata, one_of

group_dependencies = Table(
    "group_dependencies",
    metadata,
    Column(
        "group_id",
        BigInteger,
        ForeignKey("groups.id", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    ),
    Column(
        "on_group_id",
        BigInteger,
        primary_key=True,
        autoincrement=False,
        index=True,
        comment="the group that has to end; dropped no sooner than this one has ended (K1)",
    ),
    Column("condition", Text, nullable=False),
    instant("met_at"),
    CheckConstraint(one_of("condition", When), name="condition"),
    # What keeps circles out.
    CheckConstraint("on_group_id < group_id", name="earlier"),
)
