"""Rows of a new group are written without asking for what cannot be missing"""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_constraint(op.f("fk_groups_queue_id"), "groups")
    op.drop_constraint(op.f("fk_groups_shape_id"), "groups")
    op.drop_constraint(op.f("fk_group_specs_group_id"), "group_specs")


def downgrade() -> None:
    op.create_foreign_key(op.f("fk_groups_queue_id"), "groups", "queues", ["queue_id"], ["id"])
    op.create_foreign_key(op.f("fk_groups_shape_id"), "groups", "shapes", ["shape_id"], ["id"])
    op.create_foreign_key(
        op.f("fk_group_specs_group_id"), "group_specs", "groups", ["group_id"], ["id"], ondelete="CASCADE"
    )
