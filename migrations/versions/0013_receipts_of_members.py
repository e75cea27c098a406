"""Receipts of members that a group gave up"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "preemptions",
        sa.Column(
            "revision",
            sa.Integer(),
            autoincrement=False,
            server_default="0",
            nullable=False,
            comment="with which it gave up members; 0: all of it gave way",
        ),
    )
    op.add_column(
        "preemptions",
        sa.Column(
            "members", sa.Integer(), nullable=True, comment="how many it gave up; NULL: all of it gave way"
        ),
    )
    op.create_check_constraint(
        op.f("ck_preemptions_members"), "preemptions", "(revision = 0) = (members IS NULL)"
    )
    op.drop_constraint(op.f("pk_preemptions"), "preemptions", type_="primary")
    op.create_primary_key(op.f("pk_preemptions"), "preemptions", ["unit_id", "attempt", "revision"])


def downgrade() -> None:
    op.execute("DELETE FROM preemptions WHERE revision > 0")
    op.drop_constraint(op.f("pk_preemptions"), "preemptions", type_="primary")
    op.create_primary_key(op.f("pk_preemptions"), "preemptions", ["unit_id", "attempt"])
    op.drop_constraint(op.f("ck_preemptions_members"), "preemptions", type_="check")
    op.drop_column("preemptions", "members")
    op.drop_column("preemptions", "revision")
