"""Holds end with their attempt by one statement, and are checked against nothing that cannot be wrong

An admission writes a row for each of its devices, and each was looked up in two other tables. Both rows
are there: the attempt is written by the same statement, and devices, nodes and pools, which the leader's
transaction reads as of a version of the configuration that it holds (L2), are never deleted. What refuses
a second holder is the primary key (R6), and that stays.
"""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_FUNCTION = """
CREATE FUNCTION end_holds() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  DELETE FROM held_devices WHERE unit_id = ANY (ARRAY(SELECT unit_id FROM gone));
  RETURN NULL;
END
$$
"""
_TRIGGER = """
CREATE TRIGGER end_holds AFTER DELETE ON attempts REFERENCING OLD TABLE AS gone
FOR EACH STATEMENT EXECUTE FUNCTION end_holds()
"""


def upgrade() -> None:
    op.execute(_FUNCTION)
    op.execute(_TRIGGER)
    op.drop_constraint(op.f("fk_held_devices_unit_id"), "held_devices", type_="foreignkey")
    op.drop_constraint(op.f("fk_held_devices_node_id_device"), "held_devices", type_="foreignkey")
    op.drop_constraint(op.f("fk_attempts_pool_id"), "attempts", type_="foreignkey")


def downgrade() -> None:
    op.create_foreign_key(op.f("fk_attempts_pool_id"), "attempts", "pools", ["pool_id"], ["id"])
    op.create_foreign_key(
        op.f("fk_held_devices_node_id_device"),
        "held_devices",
        "devices",
        ["node_id", "device"],
        ["node_id", "device"],
    )
    op.create_foreign_key(
        op.f("fk_held_devices_unit_id"),
        "held_devices",
        "attempts",
        ["unit_id"],
        ["unit_id"],
        ondelete="CASCADE",
    )
    op.execute("DROP TRIGGER end_holds ON attempts")
    op.execute("DROP FUNCTION end_holds()")
