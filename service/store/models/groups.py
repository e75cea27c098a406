"""What was submitted: groups, their shapes and specs, and the units that are admitted as one.

What changes in a group's life lies in narrow rows of `units` without an index on what changes; specs,
which nobody reads in a cycle, lie apart.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from service.domain.shape import Scheduling
from service.domain.status import ENDED, Cause, Status
from service.store.models.schema import HOT, instant, metadata, one_of

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
    instant("submitted_at", nullable=False),
    Column("time_limit_seconds", Integer),
    Column("start_timeout_seconds", Integer),
    Column("grace_seconds", Integer, nullable=False),
    Column("on_member_loss", Text, nullable=False),
    Column("max_restarts", Integer, nullable=False),
    Column("backoff_seconds", Integer, nullable=False),
    Column("seat_timeout_seconds", Integer, nullable=False),
    Column("is_preemptible", Boolean, nullable=False),
    instant("not_before_at"),
    Column(
        "expected_seconds",
        Integer,
        comment="as long as groups like it ran when it was submitted; NULL: too few had ended",
    ),
    Column("labels", JSONB, nullable=False),
    CheckConstraint("member_count > 0", name="member_count"),
    CheckConstraint(one_of("scheduling", Scheduling), name="scheduling"),
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
    instant("backoff_until"),
    # NULL, which is most often so, costs nothing where rows are many.
    Column(
        "waiting_since",
        DateTime(timezone=True),
        comment="since when it could have been admitted; NULL: since it was submitted",
    ),
    instant("held_at"),
    Column("open_dependencies", Integer, comment="groups that have to end first; NULL: none"),
    Column("has_never_run", Boolean, comment="whether its last attempt was never Running; NULL: no"),
    Column("preempted_at", ARRAY(DateTime(timezone=True)), comment="during the last day; NULL: never"),
    instant("admitted_at"),
    instant("ended_at"),
    Column("cause", Text),
    Column("message", Text, comment="why it is held, backs off or failed: for people"),
    CheckConstraint(one_of("status", Status), name="status"),
    CheckConstraint(one_of("cause", Cause), name="cause"),
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
    **HOT,
)
