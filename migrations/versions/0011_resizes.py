"""What is under way when a running group grows or shrinks"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_MEMBERS = postgresql.ARRAY(sa.Integer())


def _columns() -> tuple[sa.Column[Any], ...]:
    return (
        sa.Column(
            "is_resizable",
            sa.Boolean(),
            server_default="false",
            nullable=False,
            comment="it may grow and shrink while it runs, and its launcher can do that",
        ),
        sa.Column(
            "adding",
            _MEMBERS,
            nullable=True,
            comment="members that the last resize added, until they are launched",
        ),
        sa.Column(
            "dropping",
            _MEMBERS,
            nullable=True,
            comment="members that stop; their places are held until they are gone",
        ),
        sa.Column(
            "usage_without",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=True,
            comment="usage without the members of adding or dropping",
        ),
        sa.Column("drop_kill_at", sa.DateTime(timezone=True), nullable=True),
    )


def upgrade() -> None:
    for column in _columns():
        op.add_column("attempts", column)
    op.create_check_constraint(
        op.f("ck_attempts_one_resize"), "attempts", "adding IS NULL OR dropping IS NULL"
    )
    op.create_check_constraint(
        op.f("ck_attempts_dropping"), "attempts", "(dropping IS NULL) = (drop_kill_at IS NULL)"
    )
    op.add_column(
        "pools",
        sa.Column(
            "can_resize",
            sa.Boolean(),
            server_default="false",
            nullable=False,
            comment="its launcher starts and stops single members of a group that runs",
        ),
    )


def downgrade() -> None:
    op.drop_column("pools", "can_resize")
    op.drop_constraint(op.f("ck_attempts_dropping"), "attempts", type_="check")
    op.drop_constraint(op.f("ck_attempts_one_resize"), "attempts", type_="check")
    for column in reversed(_columns()):
        op.drop_column("attempts", column.name)
