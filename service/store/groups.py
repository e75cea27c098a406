"""New groups and their first units."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import msgspec
from sqlalchemy import Connection

from service.domain.events import FEED, Kind
from service.domain.group import GroupSpec
from service.domain.shape import Scheduling
from service.domain.status import Status
from service.domain.unit import unit_id
from service.store.copying import NULL, Lines, copy_lines, escaped, escaped_json
from service.store.specs import spec_bodies

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
    "not_before_at",
    "expected_seconds",
    "labels",
)
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
    "waiting_since",
    "open_dependencies",
)
_SPEC_COLUMNS = ("group_id", "spec", "secrets")
_EVENT_COLUMNS = ("is_feed", "at", "kind", "group_id", "unit_id", "attempt", "actor")
_IS_FEED = Kind.SUBMITTED in FEED
_PENDING, _SUBMITTED = Status.PENDING.value, Kind.SUBMITTED.value


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
    expected_seconds: int | None = None

    @property
    def last_index(self) -> int:
        """A gang is one unit; waiting members of an independent group are one range."""
        return 0 if self.spec.scheduling is Scheduling.GANG else self.spec.member_count - 1

    @property
    def unit_id(self) -> int:
        return unit_id(self.id, self.last_index)


def insert_groups(conn: Connection, groups: Sequence[NewGroup]) -> None:
    """Groups, their specs and their Pending units: one COPY for each table."""
    copy_lines(conn, _rows_of(groups))


def insert_submitted(conn: Connection, groups: Sequence[NewGroup]) -> None:
    """Groups, and the record that they were submitted."""
    events = Lines("events", _EVENT_COLUMNS, map(_event_line, groups))
    copy_lines(conn, [*_rows_of(groups), events])


def _rows_of(groups: Sequence[NewGroup]) -> list[Lines]:
    return [
        Lines("groups", _GROUP_COLUMNS, map(_group_line, groups)),
        Lines("group_specs", _SPEC_COLUMNS, _spec_lines(groups)),
        Lines("units", UNIT_COLUMNS, map(_unit_line, groups)),
    ]


def _group_line(group: NewGroup) -> str:
    spec = group.spec
    recovery = spec.recovery
    return (
        f"{group.id}\t{group.public_id}\t{escaped(spec.name)}\t{group.queue_id}\t{group.shape_id}\t"
        f"{_whose(group.tenant, group.owner)}\t{spec.priority}\t{spec.scheduling}\t"
        f"{spec.member_count}\t{_instant(group.submitted_at)}\t{_seconds(spec.time_limit_seconds)}\t"
        f"{_seconds(spec.start_timeout_seconds)}\t{spec.grace_seconds}\t{recovery.on_member_loss}\t"
        f"{recovery.max_restarts}\t{recovery.backoff_seconds}\t{recovery.seat_timeout_seconds}\t"
        f"{spec.is_preemptible}\t{_instant_or_null(spec.not_before_at)}\t"
        f"{_seconds(group.expected_seconds)}\t{_labels(spec)}\n"
    )


@functools.lru_cache(maxsize=256)
def _whose(tenant: str, owner: str) -> str:
    return f"{escaped(tenant)}\t{escaped(owner)}"


@functools.lru_cache(maxsize=256)
def _instant(at: datetime) -> str:
    return at.isoformat()


def _instant_or_null(at: datetime | None) -> str:
    return NULL if at is None else _instant(at)


def _seconds(value: int | None) -> str:
    return NULL if value is None else str(value)


def _labels(spec: GroupSpec) -> str:
    return escaped_json(msgspec.json.encode(spec.labels)) if spec.labels else "{}"


def _spec_lines(groups: Sequence[NewGroup]) -> Iterator[str]:
    for group, body in zip(groups, spec_bodies(group.spec for group in groups), strict=True):
        sealed = NULL if group.sealed is None else rf"\\x{group.sealed.hex()}"
        yield f"{group.id}\t{escaped_json(body)}\t{sealed}\n"


def _unit_line(group: NewGroup) -> str:
    return (
        f"{group.unit_id}\t{group.id}\t0\t{group.last_index}\t{_PENDING}\t1\t1\tf\t0\t0\t{{}}\t"
        f"{_waiting_since(group)}\t{len(group.spec.after) or NULL}\n"
    )


def _waiting_since(group: NewGroup) -> str:
    """Null: since its submission."""
    wanted = group.spec.not_before_at
    return NULL if wanted is None or wanted <= group.submitted_at else _instant(wanted)


def _event_line(group: NewGroup) -> str:
    return (
        f"{_IS_FEED}\t{_instant(group.submitted_at)}\t{_SUBMITTED}\t{group.id}\t{group.unit_id}\t1\t"
        f"{escaped(group.owner)}\n"
    )
