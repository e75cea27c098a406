"""Claims, and when a class lacked more than places"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006_usage"
branch_labels = None
depends_on = None

_INSTANT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "claims",
        sa.Column("unit_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("made_at", _INSTANT, nullable=False),
        sa.Column(
            "due_at",
            _INSTANT,
            nullable=True,
            comment="when its places should be free; NULL: somebody on them has no time limit",
        ),
        sa.Column(
            "places",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="[[member, role, node_id, [device, ...]], ...]",
        ),
        sa.Column("redated", sa.Integer(), nullable=False, comment="dates that passed"),
        sa.CheckConstraint("cause IN ('Head', 'Guard', 'Preemption')", name=op.f("ck_claims_cause")),
        sa.CheckConstraint("redated >= 0", name=op.f("ck_claims_redated")),
        sa.ForeignKeyConstraint(
            ["unit_id"], ["units.id"], name=op.f("fk_claims_unit_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("unit_id", name=op.f("pk_claims")),
    )
    op.create_table(
        "guard_pauses",
        sa.Column("queue_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("shape_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("began_at", _INSTANT, nullable=False),
        sa.Column("ended_at", _INSTANT, nullable=True, comment="NULL: it goes on"),
        sa.CheckConstraint("ended_at > began_at", name=op.f("ck_guard_pauses_order")),
        sa.PrimaryKeyConstraint("queue_id", "shape_id", "began_at", name=op.f("pk_guard_pauses")),
    )


def downgrade() -> None:
    op.drop_table("guard_pauses")
    op.drop_table("claims")
