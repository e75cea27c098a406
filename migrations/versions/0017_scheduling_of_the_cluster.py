"""How the whole cluster decides, as far as admins say it

An empty object says nothing: what the worker's variables say holds, as before.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "config",
        sa.Column("scheduling", JSONB(), nullable=False, server_default="{}", comment="SchedulingSettings"),
    )


def downgrade() -> None:
    op.drop_column("config", "scheduling")
