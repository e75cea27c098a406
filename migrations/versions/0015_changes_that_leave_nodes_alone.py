"""Changes of queues alone are counted, so that nobody reads nodes again for them

What does not count them here only lets nodes be read again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "config",
        sa.Column(
            "with_same_nodes",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="how many of these changes were of nothing about nodes, devices and pools",
        ),
    )


def downgrade() -> None:
    op.drop_column("config", "with_same_nodes")
