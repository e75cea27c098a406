"""Tables. Status, places and counters that change in a group's life lie in narrow rows without an
index on what changes; specs, which nobody reads in a cycle, lie apart.

Rules of the architecture's section 13 that SQL can hold are constraints here, above all
`held_devices`: no device is held twice (R6).
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.types import UserDefinedType

from service.domain.queue import Order, Stop
from service.domain.shape import Scheduling
from service.domain.status import ENDED, Cause, Status

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class TransactionId(UserDefinedType[str]):
    """PostgreSQL's xid8: a transaction id that never wraps."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "XID8"


def _instant(name: str, *, nullable: bool = True) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=nullable)


def _one_of(
    column: str, values: type[Status] | type[Cause] | type[Order] | type[Stop] | type[Scheduling]
) -> str:
    return f"{column} IN ({', '.join(repr(value.value) for value in values)})"


_HOT: dict[str, Any] = {"postgresql_with": {"fillfactor": "50"}}

# ---------------------------------------------------------------- who may call
keys = Table(
    "keys",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("public_id", Uuid, nullable=False, unique=True),
    Column("digest", LargeBinary, nullable=False, unique=True, comment="SHA-256 of the key"),
    Column("tenant", Text, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("role", Text, nullable=False),
    _instant("created_at", nullable=False),
    _instant("revoked_at"),
    CheckConstraint("role IN ('user', 'operator', 'admin')", name="role"),
)

# ---------------------------------------------------------------- configuration
config = Table(
    "config",
    metadata,
    Column("id", Integer, primary_key=True),
    Column(
        "version", BigInteger, nullable=False, comment="raised by every change of queues, pools, nodes (L2)"
    ),
    CheckConstraint("id = 1", name="one_row"),
)
queues = Table(
    "queues",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("name", Text, nullable=False),
    Column("tenant", Text, comment="who may submit; NULL for everybody"),
    Column("queue_order", Text, nullable=False),
    Column("stop", Text, nullable=False),
    Column("has_quota", Boolean, nullable=False, comment="false: no nominal quota at all"),
    _instant("created_at", nullable=False),
    _instant("deleted_at"),
    CheckConstraint(_one_of("queue_order", Order), name="queue_order"),
    CheckConstraint(_one_of("stop", Stop), name="stop"),
    #: A deleted queue stays for its ended groups; its name is free.
    Index("uq_queues_name", "name", unique=True, postgresql_where=text("deleted_at IS NULL")),
)
quotas = Table(
    "quotas",
    metadata,
    Column("queue_id", BigInteger, ForeignKey("queues.id", ondelete="CASCADE"), primary_key=True),
    Column("resource", Text, primary_key=True, comment="flavor (GPUs), cpus (thousandths) or memory (MiB)"),
    Column("nominal", BigInteger),
    Column("hard_limit", BigInteger),
    CheckConstraint("nominal >= 0 AND hard_limit >= 0", name="not_negative"),
    CheckConstraint("nominal <= hard_limit", name="nominal_within_limit"),
)
pools = Table(
    "pools",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("launcher", Text, nullable=False, comment="local, simulated, kubernetes"),
    Column("levels", ARRAY(Text), nullable=False, comment="topology levels, outermost first, host last"),
    _instant("unreachable_at"),
)
nodes = Table(
    "nodes",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("pool_id", BigInteger, ForeignKey("pools.id"), nullable=False, index=True),
    Column("cpus_milli", BigInteger, nullable=False),
    Column("memory_mib", BigInteger, nullable=False),
    Column("labels", JSONB, nullable=False),
    Column("is_ready", Boolean, nullable=False),
    Column("is_cordoned", Boolean, nullable=False),
    _instant("drain_at"),
    Column("boot_id", Text),
    _instant("updated_at", nullable=False),
    CheckConstraint("cpus_milli >= 0 AND memory_mib >= 0", name="not_negative"),
)
devices = Table(
    "devices",
    metadata,
    Column("node_id", BigInteger, ForeignKey("nodes.id", ondelete="CASCADE"), primary_key=True),
    Column("device", Integer, primary_key=True),
    Column("model", Text, nullable=False),
    Column("memory_mib", BigInteger, nullable=False),
    Column("uuid", Text),
    Column("is_healthy", Boolean, nullable=False),
    _instant("lost_at"),
    Column("lost_note", Text, comment="which unit and attempt could not be ended here (X5)"),
    Column("lost_boot_id", Text),
)

# ---------------------------------------------------------------- groups
shapes = Table(
    "shapes",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("digest", LargeBinary, nullable=False, unique=True),
    Column("shape", JSONB, nullable=False),
)
groups = Table(
    "groups",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("public_id", Uuid, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    # Rows of `queues` and `shapes` stay for ever, and their ids were read in the transaction that wrote the
    # group: a foreign key would ask for them again, at a fifth of what a group costs.
    Column("queue_id", BigInteger, nullable=False),
    Column("shape_id", BigInteger, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("scheduling", Text, nullable=False),
    Column("member_count", Integer, nullable=False),
    _instant("submitted_at", nullable=False),
    Column("time_limit_seconds", Integer),
    Column("start_timeout_seconds", Integer),
    Column("grace_seconds", Integer, nullable=False),
    Column("on_member_loss", Text, nullable=False),
    Column("max_restarts", Integer, nullable=False),
    Column("backoff_seconds", Integer, nullable=False),
    Column("seat_timeout_seconds", Integer, nullable=False),
    Column("is_preemptible", Boolean, nullable=False),
    Column("labels", JSONB, nullable=False),
    CheckConstraint("member_count > 0", name="member_count"),
    CheckConstraint(_one_of("scheduling", Scheduling), name="scheduling"),
    Index(None, "queue_id", "id"),
    Index(None, "owner", "id"),
)
group_specs = Table(
    "group_specs",
    metadata,
    # Written and dropped with its group, in one transaction; without a foreign key for the same reason.
    Column("group_id", BigInteger, primary_key=True, autoincrement=False),
    Column("spec", JSONB, nullable=False, comment="the GroupSpec without secrets"),
    Column("secrets", LargeBinary, comment="encrypted; erased when the group ends"),
)
idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("owner", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("body_digest", LargeBinary, nullable=False),
    Column("group_ids", ARRAY(Uuid), nullable=False),
    Column(
        "created_at",
        DateTime(timezone=True),
        nullable=False,
        index=True,
        comment="that of its groups, by which they find each other (K1)",
    ),
)
units = Table(
    "units",
    metadata,
    Column("id", BigInteger, primary_key=True, comment="group and last index, packed"),
    Column("group_id", BigInteger, ForeignKey("groups.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("first_index", Integer, nullable=False),
    Column("last_index", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("version", Integer, nullable=False, comment="raised by every change; compare-and-set (W4)"),
    Column("is_held", Boolean, nullable=False),
    Column("restarts_used", Integer, nullable=False),
    Column("refused_dispatches", Integer, nullable=False),
    Column(
        "failed_nodes",
        ARRAY(BigInteger),
        nullable=False,
        comment="nodes of infrastructure failures: avoided while others do, and counted",
    ),
    _instant("backoff_until"),
    _instant("admitted_at"),
    _instant("ended_at"),
    Column("cause", Text),
    Column("message", Text, comment="why it is held, backs off or failed: for people"),
    CheckConstraint(_one_of("status", Status), name="status"),
    CheckConstraint(_one_of("cause", Cause), name="cause"),
    CheckConstraint("0 <= first_index AND first_index <= last_index", name="index_range"),
    CheckConstraint("id = ((group_id << 20) | last_index)", name="id"),
    CheckConstraint(
        "first_index = last_index OR status IN ('Pending', 'Cancelled')", name="only_waiting_ranges"
    ),
    CheckConstraint("attempt >= 1 AND restarts_used >= 0 AND refused_dispatches >= 0", name="counters"),
    CheckConstraint(
        f"(ended_at IS NOT NULL) = (status IN ({', '.join(sorted(repr(s.value) for s in ENDED))}))",
        name="ended",
    ),
    # What waits or lives, however many have ended. `ended_at` changes once in a life, so updates of
    # what lives stay within their page.
    Index("ix_units_unended", "group_id", postgresql_where=text("ended_at IS NULL")),
    **_HOT,
)

# ---------------------------------------------------------------- what lives
#: One row per live attempt: its hold, its dispatch row and its deadlines. It is deleted when the
#: attempt is closed and gone, so the table is also the list of what lives.
attempts = Table(
    "attempts",
    metadata,
    Column("unit_id", BigInteger, ForeignKey("units.id"), primary_key=True),
    Column("attempt", Integer, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("group_id", BigInteger, nullable=False),
    Column("queue_id", BigInteger, nullable=False),
    Column("pool_id", BigInteger, nullable=False),
    Column("places", JSONB, nullable=False, comment="[[member, role, node_id, [device, ...]], ...]"),
    Column("usage", JSONB, nullable=False, comment="amount by flavor (GPUs), cpus, memory"),
    Column("dispatch", Text, nullable=False),
    # Of no use any more. The version before this one writes it, so it goes with the next one.
    Column("claimed_epoch", BigInteger, comment="of the dispatcher that claimed this generation (D1)"),
    _instant("claimed_at"),
    Column(
        "dispatches", Integer, nullable=False, comment="how often this attempt was handed to its launcher"
    ),
    Column(
        "infrastructure_losses",
        Integer,
        nullable=False,
        server_default="0",
        comment="restarts in place that were nobody's fault",
    ),
    _instant("admitted_at", nullable=False),
    _instant("running_at"),
    _instant("start_deadline_at"),
    _instant("time_limit_at"),
    _instant("seat_deadline_at"),
    _instant("stop_at"),
    _instant("kill_at"),
    Column("evict_target", Text),
    Column("evict_cause", Text),
    Column("evict_message", Text),
    Column("evict_backoff_seconds", Integer, comment="waited once it is queued again; NULL for none"),
    CheckConstraint("dispatch IN ('Waiting', 'Claimed', 'Launched', 'Closing')", name="dispatch"),
    CheckConstraint("evict_target IN ('Pending', 'Failed', 'Cancelled')", name="evict_target"),
    CheckConstraint("(evict_target IS NULL) = (stop_at IS NULL)", name="evicting"),
    CheckConstraint("attempt >= 1 AND revision >= 1 AND generation >= 1", name="counters"),
    **_HOT,
)
#: R6: the primary key refuses a second holder of a device, even if the ledger is wrong. Rows come with
#: their attempt, in one statement, and the trigger `end_holds` takes them with it.
held_devices = Table(
    "held_devices",
    metadata,
    Column("node_id", BigInteger, primary_key=True),
    Column("device", Integer, primary_key=True),
    Column("unit_id", BigInteger, nullable=False, index=True),
)
#: A member's end, recorded once: the primary key makes a repeated report a no-op.
member_ends = Table(
    "member_ends",
    metadata,
    Column("unit_id", BigInteger, ForeignKey("units.id", ondelete="CASCADE"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("generation", Integer, primary_key=True),
    Column("member", Integer, primary_key=True),
    Column("exit_code", Integer, comment="NULL: lost without one"),
    _instant("ended_at", nullable=False),
    Column("detail", Text),
)
#: One row per closed attempt: history, and usage charged exactly once.
closed_attempts = Table(
    "closed_attempts",
    metadata,
    Column("unit_id", BigInteger, ForeignKey("units.id", ondelete="CASCADE"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("group_id", BigInteger, nullable=False, index=True),
    Column("queue_id", BigInteger, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("dispatches", Integer, nullable=False),
    Column("places", JSONB, nullable=False),
    Column("usage", JSONB, nullable=False),
    _instant("admitted_at", nullable=False),
    _instant("running_at"),
    _instant("ended_at", nullable=False),
    Column("closed_at", DateTime(timezone=True), nullable=False, comment="when its end was committed"),
    Column("outcome", Text, nullable=False),
    Column("cause", Text),
    Column("gpu_seconds", Float, nullable=False),
)
events = Table(
    "events",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("xid", TransactionId, nullable=False, server_default=func.pg_current_xact_id()),
    Column("is_feed", Boolean, nullable=False, comment="changes decisions, and is not the leader's own (W1)"),
    _instant("at", nullable=False),
    Column("kind", Text, nullable=False),
    Column("group_id", BigInteger),
    Column("unit_id", BigInteger),
    Column("node_id", BigInteger),
    Column("attempt", Integer),
    Column("generation", Integer),
    Column("cause", Text),
    Column("actor", Text),
    Column("data", JSONB),
    Index("ix_events_feed", "xid", postgresql_where=text("is_feed")),
    Index("ix_events_group_id", "group_id", "id"),
)

# ---------------------------------------------------------------- leases
leadership = Table(
    "leadership",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    Column("backend_pid", Integer),
    _instant("backend_start"),
    CheckConstraint("id = 1", name="one_row"),
)
#: Apart from the epoch, so that renewing never waits for a transaction that holds it (L1).
leadership_expiry = Table(
    "leadership_expiry",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    _instant("expires_at", nullable=False),
    CheckConstraint("id = 1", name="one_row"),
)
dispatcher_leases = Table(
    "dispatcher_leases",
    metadata,
    Column("pool_id", BigInteger, ForeignKey("pools.id", ondelete="CASCADE"), primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    Column("backend_pid", Integer),
    _instant("backend_start"),
)
dispatcher_expiries = Table(
    "dispatcher_expiries",
    metadata,
    Column("pool_id", BigInteger, ForeignKey("pools.id", ondelete="CASCADE"), primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    _instant("expires_at", nullable=False),
)
