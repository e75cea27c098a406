"""Pauses of guards are those of a queue, with whose guards stood still

Nobody has written one yet, so the table is made anew.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_INSTANT = sa.DateTime(timezone=True)
_NUMBERS = postgresql.ARRAY(sa.BigInteger())


def upgrade() -> None:
    op.drop_table("guard_pauses")
    op.create_table(
        "guard_pauses",
        sa.Column("queue_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("began_at", _INSTANT, nullable=False),
        sa.Column("ended_at", _INSTANT, nullable=True, comment="NULL: it goes on"),
        sa.Column("shape_ids", _NUMBERS, nullable=False, comment="classes whose guards stood still"),
        sa.Column("unit_ids", _NUMBERS, nullable=False, comment="single rows that wait whose guard did"),
        sa.Column(
            "moving",
            _NUMBERS,
            nullable=True,
            comment="not NULL: all guards of the queue, but those of these rows",
        ),
        sa.CheckConstraint("ended_at > began_at", name=op.f("ck_guard_pauses_order")),
        sa.ForeignKeyConstraint(
            ["queue_id"], ["queues.id"], name=op.f("fk_guard_pauses_queue_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("queue_id", "began_at", name=op.f("pk_guard_pauses")),
    )


def downgrade() -> None:
    op.drop_table("guard_pauses")
    op.create_table(
        "guard_pauses",
        sa.Column("queue_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("shape_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("began_at", _INSTANT, nullable=False),
        sa.Column("ended_at", _INSTANT, nullable=True, comment="NULL: it goes on"),
        sa.CheckConstraint("ended_at > began_at", name=op.f("ck_guard_pauses_order")),
        sa.PrimaryKeyConstraint("queue_id", "shape_id", "began_at", name=op.f("pk_guard_pauses")),
    )
