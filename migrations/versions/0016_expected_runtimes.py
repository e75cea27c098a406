"""How long a group is expected to run, as it was known when it was submitted

NULL costs nothing, and is what every group has that was submitted before.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "groups",
        sa.Column(
            "expected_seconds",
            sa.Integer(),
            nullable=True,
            comment="as long as groups like it ran when it was submitted; NULL: too few had ended",
        ),
    )


def downgrade() -> None:
    op.drop_column("groups", "expected_seconds")
