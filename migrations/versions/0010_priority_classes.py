"""Priority classes, and queues that are on their way out"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "priority_classes",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_priority_classes")),
    )
    op.add_column(
        "queues",
        sa.Column(
            "deleting_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="since when it takes no groups: it goes once those that it has are over",
        ),
    )


def downgrade() -> None:
    op.drop_column("queues", "deleting_at")
    op.drop_table("priority_classes")
