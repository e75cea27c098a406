"""The ledger of what owners have used, and how long their groups ran"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006_usage"
down_revision = "0005"
branch_labels = None
depends_on = None

_INSTANT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column(
        "attempts",
        sa.Column(
            "held_before",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=True,
            comment="[{usage, began_at, ended_at}, ...] before its places changed; NULL: they did not",
        ),
    )
    op.add_column(
        "closed_attempts",
        sa.Column(
            "held_before", postgresql.JSONB(astext_type=sa.Text()), nullable=True, comment="as in attempts"
        ),
    )
    op.create_table(
        "uncharged_attempts",
        sa.Column("unit_id", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("unit_id", "attempt", name=op.f("pk_uncharged_attempts")),
    )
    op.create_table(
        "usage",
        sa.Column("queue_id", sa.BigInteger(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("resource", sa.Text(), nullable=False),
        sa.Column("held_seconds", sa.Float(), nullable=False, comment="all that closed attempts held"),
        sa.Column(
            "lost_seconds", sa.Float(), nullable=False, comment="of it what the platform lost: not charged"
        ),
        sa.Column(
            "decayed_seconds", sa.Float(), nullable=False, comment="what was charged, decayed to as_of"
        ),
        sa.Column("as_of", _INSTANT, nullable=False),
        sa.ForeignKeyConstraint(["queue_id"], ["queues.id"], name=op.f("fk_usage_queue_id")),
        sa.PrimaryKeyConstraint("queue_id", "tenant", "owner", "resource", name=op.f("pk_usage")),
        postgresql_with={"fillfactor": "50"},
    )
    op.create_table(
        "usage_decay",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column(
            "half_life_seconds",
            sa.Float(),
            nullable=False,
            comment="of decayed_seconds; 0: it is not kept",
        ),
        sa.CheckConstraint("id = 1", name=op.f("ck_usage_decay_one_row")),
        sa.CheckConstraint("half_life_seconds >= 0", name=op.f("ck_usage_decay_not_negative")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_usage_decay")),
    )
    op.execute("INSERT INTO usage_decay (id, half_life_seconds) VALUES (1, 0)")
    _create_runtimes()


def _create_runtimes() -> None:
    op.create_table(
        "runtimes",
        sa.Column("unit_id", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("queue_id", sa.BigInteger(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False, comment="from Running to the end"),
        sa.Column(
            "is_cut",
            sa.Boolean(),
            nullable=False,
            comment="it ran into its time limit, and would have run on",
        ),
        sa.Column("ended_at", _INSTANT, nullable=False),
        sa.ForeignKeyConstraint(["queue_id"], ["queues.id"], name=op.f("fk_runtimes_queue_id")),
        sa.PrimaryKeyConstraint("unit_id", "attempt", name=op.f("pk_runtimes")),
    )
    op.create_index("ix_runtimes_owner", "runtimes", ["queue_id", "tenant", "owner", "ended_at"])
    op.create_index("ix_runtimes_queue", "runtimes", ["queue_id", "ended_at"])
    op.create_index("ix_runtimes_all", "runtimes", ["ended_at"])


def downgrade() -> None:
    op.drop_table("runtimes")
    op.drop_table("usage_decay")
    op.drop_table("usage")
    op.drop_table("uncharged_attempts")
    op.drop_column("closed_attempts", "held_before")
    op.drop_column("attempts", "held_before")
