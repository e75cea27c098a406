"""Cohorts, what a queue says about its policy, and what a unit's turn depends on"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_INSTANT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "cohorts",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("parent_id", sa.BigInteger(), nullable=True),
        sa.Column("weight", sa.Float(), server_default="1", nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.CheckConstraint("weight >= 0", name=op.f("ck_cohorts_weight")),
        sa.CheckConstraint("parent_id <> id", name=op.f("ck_cohorts_own_parent")),
        sa.ForeignKeyConstraint(["parent_id"], ["cohorts.id"], name=op.f("fk_cohorts_parent_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cohorts")),
        sa.UniqueConstraint("name", name=op.f("uq_cohorts_name")),
    )
    op.create_index("ix_cohorts_parent_id", "cohorts", ["parent_id"])
    op.create_table(
        "cohort_quotas",
        sa.Column("cohort_id", sa.BigInteger(), nullable=False),
        sa.Column(
            "resource",
            sa.Text(),
            nullable=False,
            comment="flavor (GPUs), cpus (thousandths) or memory (MiB)",
        ),
        sa.Column("nominal", sa.BigInteger(), nullable=True),
        sa.Column("borrowing", sa.BigInteger(), nullable=True, comment="NULL: no bound"),
        sa.Column("lending", sa.BigInteger(), nullable=True, comment="NULL: all of it"),
        sa.CheckConstraint(
            "nominal >= 0 AND borrowing >= 0 AND lending >= 0", name=op.f("ck_cohort_quotas_not_negative")
        ),
        sa.ForeignKeyConstraint(
            ["cohort_id"], ["cohorts.id"], name=op.f("fk_cohort_quotas_cohort_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("cohort_id", "resource", name=op.f("pk_cohort_quotas")),
    )
    op.add_column("queues", sa.Column("cohort_id", sa.BigInteger(), nullable=True))
    op.create_foreign_key(op.f("fk_queues_cohort_id"), "queues", "cohorts", ["cohort_id"], ["id"])
    op.create_index("ix_queues_cohort_id", "queues", ["cohort_id"])
    op.add_column(
        "queues",
        sa.Column(
            "policy",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default="{}",
            nullable=False,
            comment="a QueuePolicy",
        ),
    )
    op.add_column("quotas", sa.Column("borrowing", sa.BigInteger(), nullable=True, comment="NULL: no bound"))
    op.add_column("quotas", sa.Column("lending", sa.BigInteger(), nullable=True, comment="NULL: all of it"))
    op.create_check_constraint(
        op.f("ck_quotas_limits_not_negative"), "quotas", "borrowing >= 0 AND lending >= 0"
    )
    op.add_column("groups", sa.Column("not_before_at", _INSTANT, nullable=True))
    _add_to_units()
    op.add_column("attempts", sa.Column("resized_at", _INSTANT, nullable=True))


def _add_to_units() -> None:
    op.add_column(
        "units",
        sa.Column(
            "waiting_since",
            _INSTANT,
            nullable=True,
            comment="since when it could have been admitted; NULL: since it was submitted",
        ),
    )
    op.add_column("units", sa.Column("held_at", _INSTANT, nullable=True))
    op.add_column(
        "units",
        sa.Column(
            "open_dependencies",
            sa.Integer(),
            nullable=True,
            comment="groups that have to end first; NULL: none",
        ),
    )
    op.add_column(
        "units",
        sa.Column(
            "has_never_run",
            sa.Boolean(),
            nullable=True,
            comment="whether its last attempt was never Running; NULL: no",
        ),
    )
    op.add_column(
        "units",
        sa.Column(
            "preempted_at",
            postgresql.ARRAY(_INSTANT),
            nullable=True,
            comment="during the last day; NULL: never",
        ),
    )


def downgrade() -> None:
    op.drop_column("attempts", "resized_at")
    for column in ("preempted_at", "has_never_run", "open_dependencies", "held_at", "waiting_since"):
        op.drop_column("units", column)
    op.drop_column("groups", "not_before_at")
    op.drop_constraint(op.f("ck_quotas_limits_not_negative"), "quotas", type_="check")
    op.drop_column("quotas", "lending")
    op.drop_column("quotas", "borrowing")
    op.drop_column("queues", "policy")
    op.drop_index("ix_queues_cohort_id", "queues")
    op.drop_constraint(op.f("fk_queues_cohort_id"), "queues", type_="foreignkey")
    op.drop_column("queues", "cohort_id")
    op.drop_table("cohort_quotas")
    op.drop_table("cohorts")
