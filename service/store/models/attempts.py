"""Attempts of units: those that live, with what they hold, and those that are closed."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Integer,
    Table,
    Text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from service.store.models.schema import HOT, instant, metadata

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
    instant("claimed_at"),
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
    instant("admitted_at", nullable=False),
    instant("running_at"),
    Column(
        "held_before",
        JSONB,
        comment="[{usage, began_at, ended_at}, ...] before its places changed; NULL: they did not",
    ),
    instant("resized_at"),
    Column(
        "is_resizable",
        Boolean,
        nullable=False,
        server_default="false",
        comment="it may grow and shrink while it runs, and its launcher can do that",
    ),
    Column("adding", ARRAY(Integer), comment="members that the last resize added, until they are launched"),
    Column(
        "dropping", ARRAY(Integer), comment="members that stop; their places are held until they are gone"
    ),
    Column("usage_without", JSONB, comment="usage without the members of adding or dropping"),
    instant("drop_kill_at"),
    instant("start_deadline_at"),
    instant("time_limit_at"),
    instant("seat_deadline_at"),
    instant("stop_at"),
    instant("kill_at"),
    Column("evict_target", Text),
    Column("evict_cause", Text),
    Column("evict_message", Text),
    Column("evict_backoff_seconds", Integer, comment="waited once it is queued again; NULL for none"),
    CheckConstraint("dispatch IN ('Waiting', 'Claimed', 'Launched', 'Closing')", name="dispatch"),
    CheckConstraint("evict_target IN ('Pending', 'Failed', 'Cancelled')", name="evict_target"),
    CheckConstraint("(evict_target IS NULL) = (stop_at IS NULL)", name="evicting"),
    CheckConstraint("adding IS NULL OR dropping IS NULL", name="one_resize"),
    CheckConstraint("(dropping IS NULL) = (drop_kill_at IS NULL)", name="dropping"),
    CheckConstraint("attempt >= 1 AND revision >= 1 AND generation >= 1", name="counters"),
    **HOT,
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
    instant("ended_at", nullable=False),
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
    Column("held_before", JSONB, comment="as in attempts"),
    instant("admitted_at", nullable=False),
    instant("running_at"),
    instant("ended_at", nullable=False),
    Column("closed_at", DateTime(timezone=True), nullable=False, comment="when its end was committed"),
    Column("outcome", Text, nullable=False),
    Column("cause", Text),
    Column("gpu_seconds", Float, nullable=False),
)
