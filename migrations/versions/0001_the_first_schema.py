"""The first schema"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from service.store.models import TransactionId

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "config",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column(
            "version",
            sa.BigInteger(),
            nullable=False,
            comment="raised by every change of queues, pools, nodes (L2)",
        ),
        sa.CheckConstraint("id = 1", name=op.f("ck_config_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_config")),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("xid", TransactionId(), server_default=sa.text("pg_current_xact_id()"), nullable=False),
        sa.Column(
            "is_feed",
            sa.Boolean(),
            nullable=False,
            comment="changes decisions, and is not the leader's own (W1)",
        ),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("group_id", sa.BigInteger(), nullable=True),
        sa.Column("unit_id", sa.BigInteger(), nullable=True),
        sa.Column("node_id", sa.BigInteger(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.Column("generation", sa.Integer(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("actor", sa.Text(), nullable=True),
        sa.Column("data", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
    )
    op.create_index("ix_events_feed", "events", ["xid"], unique=False, postgresql_where=sa.text("is_feed"))
    op.create_index("ix_events_group_id", "events", ["group_id", "id"], unique=False)
    op.create_table(
        "idempotency_keys",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("body_digest", sa.LargeBinary(), nullable=False),
        sa.Column("group_ids", postgresql.ARRAY(sa.Uuid()), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "owner", "key", name=op.f("pk_idempotency_keys")),
    )
    op.create_table(
        "keys",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("public_id", sa.Uuid(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False, comment="SHA-256 of the key"),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("role IN ('user', 'operator', 'admin')", name=op.f("ck_keys_role")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_keys")),
        sa.UniqueConstraint("digest", name=op.f("uq_keys_digest")),
        sa.UniqueConstraint("public_id", name=op.f("uq_keys_public_id")),
    )
    op.create_table(
        "leadership",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("backend_pid", sa.Integer(), nullable=True),
        sa.Column("backend_start", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("id = 1", name=op.f("ck_leadership_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_leadership")),
    )
    op.create_table(
        "leadership_expiry",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_leadership_expiry_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_leadership_expiry")),
    )
    op.create_table(
        "pools",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("launcher", sa.Text(), nullable=False, comment="local, simulated, kubernetes"),
        sa.Column(
            "levels",
            postgresql.ARRAY(sa.Text()),
            nullable=False,
            comment="topology levels, outermost first, host last",
        ),
        sa.Column("unreachable_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pools")),
        sa.UniqueConstraint("name", name=op.f("uq_pools_name")),
    )
    op.create_table(
        "queues",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=True, comment="who may submit; NULL for everybody"),
        sa.Column("queue_order", sa.Text(), nullable=False),
        sa.Column("stop", sa.Text(), nullable=False),
        sa.Column("has_quota", sa.Boolean(), nullable=False, comment="false: no nominal quota at all"),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("queue_order IN ('strict', 'best_effort')", name=op.f("ck_queues_queue_order")),
        sa.CheckConstraint("stop IN ('none', 'hold', 'hold_and_drain')", name=op.f("ck_queues_stop")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_queues")),
    )
    op.create_index(
        "uq_queues_name", "queues", ["name"], unique=True, postgresql_where=sa.text("deleted_at IS NULL")
    )
    op.create_table(
        "shapes",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("shape", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_shapes")),
        sa.UniqueConstraint("digest", name=op.f("uq_shapes_digest")),
    )
    op.create_table(
        "dispatcher_expiries",
        sa.Column("pool_id", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["pool_id"], ["pools.id"], name=op.f("fk_dispatcher_expiries_pool_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("pool_id", name=op.f("pk_dispatcher_expiries")),
    )
    op.create_table(
        "dispatcher_leases",
        sa.Column("pool_id", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("backend_pid", sa.Integer(), nullable=True),
        sa.Column("backend_start", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["pool_id"], ["pools.id"], name=op.f("fk_dispatcher_leases_pool_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("pool_id", name=op.f("pk_dispatcher_leases")),
    )
    op.create_table(
        "groups",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("public_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("queue_id", sa.BigInteger(), nullable=False),
        sa.Column("shape_id", sa.BigInteger(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("scheduling", sa.Text(), nullable=False),
        sa.Column("member_count", sa.Integer(), nullable=False),
        sa.Column("submitted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("time_limit_seconds", sa.Integer(), nullable=True),
        sa.Column("start_timeout_seconds", sa.Integer(), nullable=True),
        sa.Column("grace_seconds", sa.Integer(), nullable=False),
        sa.Column("on_member_loss", sa.Text(), nullable=False),
        sa.Column("max_restarts", sa.Integer(), nullable=False),
        sa.Column("backoff_seconds", sa.Integer(), nullable=False),
        sa.Column("seat_timeout_seconds", sa.Integer(), nullable=False),
        sa.Column("is_preemptible", sa.Boolean(), nullable=False),
        sa.Column("labels", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.CheckConstraint("scheduling IN ('gang', 'independent')", name=op.f("ck_groups_scheduling")),
        sa.CheckConstraint("member_count > 0", name=op.f("ck_groups_member_count")),
        sa.ForeignKeyConstraint(["queue_id"], ["queues.id"], name=op.f("fk_groups_queue_id")),
        sa.ForeignKeyConstraint(["shape_id"], ["shapes.id"], name=op.f("fk_groups_shape_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_groups")),
        sa.UniqueConstraint("public_id", name=op.f("uq_groups_public_id")),
    )
    op.create_index(op.f("ix_groups_owner_id"), "groups", ["owner", "id"], unique=False)
    op.create_index(op.f("ix_groups_queue_id_id"), "groups", ["queue_id", "id"], unique=False)
    op.create_table(
        "nodes",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("pool_id", sa.BigInteger(), nullable=False),
        sa.Column("cpus_milli", sa.BigInteger(), nullable=False),
        sa.Column("memory_mib", sa.BigInteger(), nullable=False),
        sa.Column("labels", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("is_ready", sa.Boolean(), nullable=False),
        sa.Column("is_cordoned", sa.Boolean(), nullable=False),
        sa.Column("drain_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("boot_id", sa.Text(), nullable=True),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("cpus_milli >= 0 AND memory_mib >= 0", name=op.f("ck_nodes_not_negative")),
        sa.ForeignKeyConstraint(["pool_id"], ["pools.id"], name=op.f("fk_nodes_pool_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_nodes")),
        sa.UniqueConstraint("name", name=op.f("uq_nodes_name")),
    )
    op.create_index(op.f("ix_nodes_pool_id"), "nodes", ["pool_id"], unique=False)
    op.create_table(
        "quotas",
        sa.Column("queue_id", sa.BigInteger(), nullable=False),
        sa.Column(
            "resource", sa.Text(), nullable=False, comment="flavor (GPUs), cpus (thousandths) or memory (MiB)"
        ),
        sa.Column("nominal", sa.BigInteger(), nullable=True),
        sa.Column("hard_limit", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("nominal <= hard_limit", name=op.f("ck_quotas_nominal_within_limit")),
        sa.CheckConstraint("nominal >= 0 AND hard_limit >= 0", name=op.f("ck_quotas_not_negative")),
        sa.ForeignKeyConstraint(
            ["queue_id"], ["queues.id"], name=op.f("fk_quotas_queue_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("queue_id", "resource", name=op.f("pk_quotas")),
    )
    op.create_table(
        "devices",
        sa.Column("node_id", sa.BigInteger(), nullable=False),
        sa.Column("device", sa.Integer(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("memory_mib", sa.BigInteger(), nullable=False),
        sa.Column("uuid", sa.Text(), nullable=True),
        sa.Column("is_healthy", sa.Boolean(), nullable=False),
        sa.Column("lost_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "lost_note",
            sa.Text(),
            nullable=True,
            comment="which unit and attempt could not be ended here (X5)",
        ),
        sa.Column("lost_boot_id", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["node_id"], ["nodes.id"], name=op.f("fk_devices_node_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("node_id", "device", name=op.f("pk_devices")),
    )
    op.create_table(
        "group_specs",
        sa.Column("group_id", sa.BigInteger(), nullable=False),
        sa.Column(
            "spec",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="the GroupSpec without secrets",
        ),
        sa.Column(
            "secrets", sa.LargeBinary(), nullable=True, comment="encrypted; erased when the group ends"
        ),
        sa.ForeignKeyConstraint(
            ["group_id"], ["groups.id"], name=op.f("fk_group_specs_group_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("group_id", name=op.f("pk_group_specs")),
    )
    op.create_table(
        "units",
        sa.Column("id", sa.BigInteger(), nullable=False, comment="group and last index, packed"),
        sa.Column("group_id", sa.BigInteger(), nullable=False),
        sa.Column("first_index", sa.Integer(), nullable=False),
        sa.Column("last_index", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column(
            "version", sa.Integer(), nullable=False, comment="raised by every change; compare-and-set (W4)"
        ),
        sa.Column("is_held", sa.Boolean(), nullable=False),
        sa.Column("restarts_used", sa.Integer(), nullable=False),
        sa.Column("refused_dispatches", sa.Integer(), nullable=False),
        sa.Column(
            "failed_nodes",
            postgresql.ARRAY(sa.BigInteger()),
            nullable=False,
            comment="nodes of infrastructure failures: avoided while others do, and counted",
        ),
        sa.Column("backoff_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("admitted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column(
            "message", sa.Text(), nullable=True, comment="why it is held, backs off or failed: for people"
        ),
        sa.CheckConstraint(
            "(ended_at IS NOT NULL) = (status IN ('Cancelled', 'Failed', 'Succeeded'))",
            name=op.f("ck_units_ended"),
        ),
        sa.CheckConstraint(
            "cause IN ('UserError', 'Infrastructure', 'Preempted', 'TimeLimit', 'Unknown', 'Cancelled')",
            name=op.f("ck_units_cause"),
        ),
        sa.CheckConstraint(
            "first_index = last_index OR status IN ('Pending', 'Cancelled')",
            name=op.f("ck_units_only_waiting_ranges"),
        ),
        sa.CheckConstraint(
            "status IN ('Pending', 'Admitted', 'Starting', 'Running', 'Recovering', 'Evicting',"
            " 'Succeeded', 'Failed', 'Cancelled')",
            name=op.f("ck_units_status"),
        ),
        sa.CheckConstraint(
            "0 <= first_index AND first_index <= last_index", name=op.f("ck_units_index_range")
        ),
        sa.CheckConstraint(
            "attempt >= 1 AND restarts_used >= 0 AND refused_dispatches >= 0", name=op.f("ck_units_counters")
        ),
        sa.CheckConstraint("id = ((group_id << 20) | last_index)", name=op.f("ck_units_id")),
        sa.ForeignKeyConstraint(
            ["group_id"], ["groups.id"], name=op.f("fk_units_group_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_units")),
        postgresql_with={"fillfactor": "50"},
    )
    op.create_index(op.f("ix_units_group_id"), "units", ["group_id"], unique=False)
    op.create_index(
        "ix_units_unended", "units", ["group_id"], unique=False, postgresql_where=sa.text("ended_at IS NULL")
    )
    op.create_table(
        "attempts",
        sa.Column("unit_id", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("group_id", sa.BigInteger(), nullable=False),
        sa.Column("queue_id", sa.BigInteger(), nullable=False),
        sa.Column("pool_id", sa.BigInteger(), nullable=False),
        sa.Column(
            "places",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="[[member, role, node_id, [device, ...]], ...]",
        ),
        sa.Column(
            "usage",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="amount by flavor (GPUs), cpus, memory",
        ),
        sa.Column("dispatch", sa.Text(), nullable=False),
        sa.Column(
            "claimed_epoch",
            sa.BigInteger(),
            nullable=True,
            comment="of the dispatcher that claimed this generation (D1)",
        ),
        sa.Column("claimed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "dispatches",
            sa.Integer(),
            nullable=False,
            comment="how often this attempt was handed to its launcher",
        ),
        sa.Column(
            "infrastructure_losses",
            sa.Integer(),
            server_default="0",
            nullable=False,
            comment="restarts in place that were nobody's fault",
        ),
        sa.Column("admitted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("running_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("start_deadline_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("time_limit_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("seat_deadline_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("stop_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("kill_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("evict_target", sa.Text(), nullable=True),
        sa.Column("evict_cause", sa.Text(), nullable=True),
        sa.Column("evict_message", sa.Text(), nullable=True),
        sa.Column(
            "evict_backoff_seconds",
            sa.Integer(),
            nullable=True,
            comment="waited once it is queued again; NULL for none",
        ),
        sa.CheckConstraint(
            "dispatch IN ('Waiting', 'Claimed', 'Launched', 'Closing')", name=op.f("ck_attempts_dispatch")
        ),
        sa.CheckConstraint(
            "evict_target IN ('Pending', 'Failed', 'Cancelled')", name=op.f("ck_attempts_evict_target")
        ),
        sa.CheckConstraint("(evict_target IS NULL) = (stop_at IS NULL)", name=op.f("ck_attempts_evicting")),
        sa.CheckConstraint(
            "attempt >= 1 AND revision >= 1 AND generation >= 1", name=op.f("ck_attempts_counters")
        ),
        sa.ForeignKeyConstraint(["pool_id"], ["pools.id"], name=op.f("fk_attempts_pool_id")),
        sa.ForeignKeyConstraint(["unit_id"], ["units.id"], name=op.f("fk_attempts_unit_id")),
        sa.PrimaryKeyConstraint("unit_id", name=op.f("pk_attempts")),
        postgresql_with={"fillfactor": "50"},
    )
    op.create_table(
        "closed_attempts",
        sa.Column("unit_id", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("group_id", sa.BigInteger(), nullable=False),
        sa.Column("queue_id", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("dispatches", sa.Integer(), nullable=False),
        sa.Column("places", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("usage", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("admitted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("running_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column(
            "closed_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="when its end was committed",
        ),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("gpu_seconds", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["unit_id"], ["units.id"], name=op.f("fk_closed_attempts_unit_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("unit_id", "attempt", name=op.f("pk_closed_attempts")),
    )
    op.create_index(op.f("ix_closed_attempts_group_id"), "closed_attempts", ["group_id"], unique=False)
    op.create_table(
        "member_ends",
        sa.Column("unit_id", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("member", sa.Integer(), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True, comment="NULL: lost without one"),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["unit_id"], ["units.id"], name=op.f("fk_member_ends_unit_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("unit_id", "attempt", "generation", "member", name=op.f("pk_member_ends")),
    )
    op.create_table(
        "held_devices",
        sa.Column("node_id", sa.BigInteger(), nullable=False),
        sa.Column("device", sa.Integer(), nullable=False),
        sa.Column("unit_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["node_id", "device"],
            ["devices.node_id", "devices.device"],
            name=op.f("fk_held_devices_node_id_device"),
        ),
        sa.ForeignKeyConstraint(
            ["unit_id"], ["attempts.unit_id"], name=op.f("fk_held_devices_unit_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("node_id", "device", name=op.f("pk_held_devices")),
    )
    op.create_index(op.f("ix_held_devices_unit_id"), "held_devices", ["unit_id"], unique=False)
    seed()


def downgrade() -> None:
    op.drop_index(op.f("ix_held_devices_unit_id"), table_name="held_devices")
    op.drop_table("held_devices")
    op.drop_table("member_ends")
    op.drop_index(op.f("ix_closed_attempts_group_id"), table_name="closed_attempts")
    op.drop_table("closed_attempts")
    op.drop_table("attempts")
    op.drop_index(op.f("ix_units_group_id"), table_name="units")
    op.drop_table("units")
    op.drop_table("group_specs")
    op.drop_table("devices")
    op.drop_table("quotas")
    op.drop_index(op.f("ix_nodes_pool_id"), table_name="nodes")
    op.drop_table("nodes")
    op.drop_index(op.f("ix_groups_queue_id_id"), table_name="groups")
    op.drop_index(op.f("ix_groups_owner_id"), table_name="groups")
    op.drop_table("groups")
    op.drop_table("dispatcher_leases")
    op.drop_table("dispatcher_expiries")
    op.drop_table("shapes")
    op.drop_index("uq_queues_name", table_name="queues", postgresql_where=sa.text("deleted_at IS NULL"))
    op.drop_table("queues")
    op.drop_table("pools")
    op.drop_table("leadership_expiry")
    op.drop_table("leadership")
    op.drop_table("keys")
    op.drop_table("idempotency_keys")
    op.drop_index("ix_events_group_id", table_name="events")
    op.drop_index("ix_events_feed", table_name="events", postgresql_where=sa.text("is_feed"))
    op.drop_table("events")
    op.drop_table("config")


def seed() -> None:
    """The rows that every installation has: one configuration, no leader yet, one open queue."""
    op.execute("INSERT INTO config (id, version) VALUES (1, 1)")
    op.execute("INSERT INTO leadership (id, epoch, holder) VALUES (1, 0, '')")
    op.execute("INSERT INTO leadership_expiry (id, epoch, expires_at) VALUES (1, 0, '1970-01-01Z')")
    op.execute(
        "INSERT INTO queues (name, queue_order, stop, has_quota, created_at)"
        " VALUES ('default', 'best_effort', 'none', false, now())"
    )
