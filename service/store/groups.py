"""New groups and their first units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.types.json import Jsonb
from sqlalchemy import Connection, text

from service.domain.group import GroupSpec
from service.domain.shape import Scheduling
from service.domain.status import Status
from service.domain.unit import unit_id
from service.store.copying import copy_rows
from service.store.specs import spec_body

_GROUP_COLUMNS = (
    "id",
    "public_id",
    "name",
    "queue_id",
    "shape_id",
    "tenant",
    "owner",
    "priority",
    "scheduling",
    "member_count",
    "submitted_at",
    "time_limit_seconds",
    "start_timeout_seconds",
    "grace_seconds",
    "on_member_loss",
    "max_restarts",
    "backoff_seconds",
    "seat_timeout_seconds",
    "is_preemptible",
    "labels",
)
#: What every new unit has a value for.
UNIT_COLUMNS = (
    "id",
    "group_id",
    "first_index",
    "last_index",
    "status",
    "attempt",
    "version",
    "is_held",
    "restarts_used",
    "refused_dispatches",
    "failed_nodes",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewGroup:
    """A group that passed every rule, with all that its rows need."""

    id: int
    public_id: UUID
    spec: GroupSpec
    queue_id: int
    shape_id: int
    tenant: str
    owner: str
    submitted_at: datetime
    sealed: bytes | None

    @property
    def last_index(self) -> int:
        """A gang is one unit; waiting members of an independent group are one range."""
        return 0 if self.spec.scheduling is Scheduling.GANG else self.spec.member_count - 1

    @property
    def unit_id(self) -> int:
        return unit_id(self.id, self.last_index)


def reserve_group_ids(conn: Connection, count: int) -> list[int]:
    """`count` new ids, ascending: the order of a batch is the order of its ids."""
    rows = conn.execute(
        text("SELECT nextval(pg_get_serial_sequence('groups', 'id')) FROM generate_series(1, :count)"),
        {"count": count},
    )
    return sorted(rows.scalars())


def insert_groups(conn: Connection, groups: Sequence[NewGroup]) -> None:
    """Groups, their specs and their Pending units: one COPY for each table."""
    copy_rows(conn, "groups", columns=_GROUP_COLUMNS, rows=map(_group_row, groups))
    copy_rows(
        conn,
        "group_specs",
        columns=("group_id", "spec", "secrets"),
        rows=((group.id, Jsonb(spec_body(group.spec)), group.sealed) for group in groups),
    )
    copy_rows(conn, "units", columns=UNIT_COLUMNS, rows=map(_unit_row, groups))


def _group_row(group: NewGroup) -> tuple[object, ...]:
    spec = group.spec
    return (
        group.id,
        group.public_id,
        spec.name,
        group.queue_id,
        group.shape_id,
        group.tenant,
        group.owner,
        spec.priority,
        spec.scheduling.value,
        spec.member_count,
        group.submitted_at,
        spec.time_limit_seconds,
        spec.start_timeout_seconds,
        spec.grace_seconds,
        spec.recovery.on_member_loss.value,
        spec.recovery.max_restarts,
        spec.recovery.backoff_seconds,
        spec.recovery.seat_timeout_seconds,
        spec.is_preemptible,
        Jsonb(dict(spec.labels)),
    )


def _unit_row(group: NewGroup) -> tuple[object, ...]:
    return (group.unit_id, group.id, 0, group.last_index, Status.PENDING.value, 1, 1, False, 0, 0, [])
