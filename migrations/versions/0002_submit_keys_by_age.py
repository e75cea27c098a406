"""Submit keys are found by their age"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_COMMENT = "that of its groups, by which they find each other (K1)"


def upgrade() -> None:
    op.create_index(op.f("ix_idempotency_keys_created_at"), "idempotency_keys", ["created_at"])
    op.alter_column("idempotency_keys", "created_at", comment=_COMMENT, existing_nullable=False)


def downgrade() -> None:
    op.alter_column(
        "idempotency_keys", "created_at", comment=None, existing_comment=_COMMENT, existing_nullable=False
    )
    op.drop_index(op.f("ix_idempotency_keys_created_at"), table_name="idempotency_keys")
