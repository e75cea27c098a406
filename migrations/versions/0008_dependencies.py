"""Groups that wait for the end of others"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_OLD = "'UserError', 'Infrastructure', 'Preempted', 'TimeLimit', 'Unknown', 'Cancelled'"
_NEW = f"{_OLD}, 'DependencyNeverMet'"


def upgrade() -> None:
    op.create_table(
        "group_dependencies",
        sa.Column("group_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column(
            "on_group_id",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="the group that has to end; dropped no sooner than this one has ended (K1)",
        ),
        sa.Column("condition", sa.Text(), nullable=False),
        sa.Column("met_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "condition IN ('ok', 'not_ok', 'any')", name=op.f("ck_group_dependencies_condition")
        ),
        sa.CheckConstraint("on_group_id < group_id", name=op.f("ck_group_dependencies_earlier")),
        sa.ForeignKeyConstraint(
            ["group_id"], ["groups.id"], name=op.f("fk_group_dependencies_group_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("group_id", "on_group_id", name=op.f("pk_group_dependencies")),
    )
    op.create_index("ix_group_dependencies_on_group_id", "group_dependencies", ["on_group_id"])
    _replace_causes(_NEW)


def downgrade() -> None:
    op.execute("UPDATE units SET cause = 'Cancelled' WHERE cause = 'DependencyNeverMet'")
    _replace_causes(_OLD)
    op.drop_table("group_dependencies")


def _replace_causes(causes: str) -> None:
    op.drop_constraint(op.f("ck_units_cause"), "units", type_="check")
    op.create_check_constraint(
        op.f("ck_units_cause"), "units", f"cause IN ({causes})", postgresql_not_valid=True
    )
    # Rows that are there are looked at by 0012: in this transaction nobody could use the table meanwhile.
