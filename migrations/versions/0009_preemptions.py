"""Receipts of preemptions"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_INSTANT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "preemptions",
        sa.Column("unit_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("group_id", sa.BigInteger(), nullable=False),
        sa.Column("queue_id", sa.BigInteger(), nullable=False),
        sa.Column("claimant_unit_id", sa.BigInteger(), nullable=False, comment="the row that waited"),
        sa.Column("claimant_group_id", sa.BigInteger(), nullable=False),
        sa.Column("claimant_queue_id", sa.BigInteger(), nullable=False),
        sa.Column("entitlement", sa.Text(), nullable=False),
        sa.Column("claimant_share_before", sa.Float(), nullable=False),
        sa.Column("victim_share_before", sa.Float(), nullable=False),
        sa.Column("claimant_share_after", sa.Float(), nullable=False),
        sa.Column("victim_share_after", sa.Float(), nullable=False),
        sa.Column("lost_gpu_seconds", sa.Float(), nullable=False),
        sa.Column("decided_at", _INSTANT, nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True, comment="NULL: the claimant still waits"),
        sa.Column("outcome_at", _INSTANT, nullable=True),
        sa.Column("outcome_cause", sa.Text(), nullable=True, comment="why it was wasted"),
        sa.CheckConstraint(
            "entitlement IN ('Priority', 'Reclaim', 'FairShare')", name=op.f("ck_preemptions_entitlement")
        ),
        sa.CheckConstraint("outcome IN ('Started', 'Wasted')", name=op.f("ck_preemptions_outcome")),
        sa.CheckConstraint(
            "(outcome IS NULL) = (outcome_at IS NULL)", name=op.f("ck_preemptions_outcome_at")
        ),
        sa.CheckConstraint(
            "(outcome_cause IS NOT NULL) = (outcome IS NOT DISTINCT FROM 'Wasted')",
            name=op.f("ck_preemptions_cause"),
        ),
        sa.ForeignKeyConstraint(
            ["group_id"], ["groups.id"], name=op.f("fk_preemptions_group_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["queue_id"], ["queues.id"], name=op.f("fk_preemptions_queue_id")),
        sa.ForeignKeyConstraint(
            ["claimant_queue_id"], ["queues.id"], name=op.f("fk_preemptions_claimant_queue_id")
        ),
        sa.PrimaryKeyConstraint("unit_id", "attempt", name=op.f("pk_preemptions")),
    )
    op.create_index("ix_preemptions_group_id", "preemptions", ["group_id"])
    op.create_index("ix_preemptions_claimant_group_id", "preemptions", ["claimant_group_id"])
    op.create_index("ix_preemptions_decided_at", "preemptions", ["decided_at", "unit_id"])
    op.create_index(
        "ix_preemptions_open",
        "preemptions",
        ["claimant_unit_id"],
        postgresql_where=sa.text("outcome IS NULL"),
    )


def downgrade() -> None:
    op.drop_table("preemptions")
