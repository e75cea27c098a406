"""Causes of units that were there before are looked at, while the table is in use"""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE units VALIDATE CONSTRAINT ck_units_cause")


def downgrade() -> None:
    """Nothing: what was looked at is valid."""
