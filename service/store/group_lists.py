"""Lists of groups: filters, two orders, and pages by key, so that a page costs the same anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from psycopg.types.json import Jsonb
from sqlalchemy import Connection, text

from service.domain.status import GROUP_RANK, Status
from service.store.group_reads import GROUP_COLUMNS, GroupRow, group_row
from service.store.order import length_of


class ListOrder(StrEnum):
    """`position`: as the next cycle considers them; `newest`: last submitted first."""

    POSITION = "position"
    NEWEST = "newest"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFilter:
    """What to list. `viewer` (tenant, user) sees own groups; with `shows_others` also those of
    others that wait, in queues that are open to the tenant. None sees everything."""

    queue: str | None = None
    statuses: tuple[Status, ...] = ()
    owner: str | None = None
    name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    is_waiting: bool = False
    order: ListOrder = ListOrder.NEWEST
    viewer: tuple[str, str] | None = None
    shows_others: bool = False


@dataclass(frozen=True, slots=True)
class ListKey:
    """Where a page ended."""

    priority: int
    submitted_at: datetime
    id: int


# `ended_at` says no more than the status, but only with it the index of what has not ended is of use.
_WAITS = (
    "EXISTS (SELECT FROM units u WHERE u.group_id = g.id AND u.status = 'Pending' AND u.ended_at IS NULL)"
)
_RANKED = " ".join(f"WHEN bool_or(u.status = '{status}') THEN '{status}'" for status in GROUP_RANK)
_STATUS = f"(SELECT CASE {_RANKED} END FROM units u WHERE u.group_id = g.id)"  # noqa: S608
_OWN = "(g.tenant = :viewer_tenant AND g.owner = :viewer_user)"
_OWN_OR_WAITING = f"({_OWN} OR ({_WAITS} AND (q.tenant IS NULL OR q.tenant = :viewer_tenant)))"
_ORDERS = {
    ListOrder.POSITION: (
        "g.priority DESC, g.submitted_at, g.id",
        "(-g.priority, g.submitted_at, g.id) > (-:after_priority, :after_submitted_at, :after_id)",
    ),
    ListOrder.NEWEST: ("g.id DESC", "g.id < :after_id"),
}


def list_groups(
    conn: Connection, wanted: GroupFilter, *, after: ListKey | None, limit: int
) -> list[GroupRow]:
    """At most `limit` groups behind `after`."""
    conditions, values = _conditions(wanted)
    order, behind = _ORDERS[wanted.order]
    if after is not None:
        conditions.append(behind)
        values |= {
            "after_priority": after.priority,
            "after_submitted_at": after.submitted_at,
            "after_id": after.id,
        }
    rows = conn.execute(
        text(
            f"SELECT {GROUP_COLUMNS} FROM groups g JOIN queues q ON q.id = g.queue_id"  # noqa: S608
            f" WHERE {' AND '.join(conditions) or 'true'} ORDER BY {order} LIMIT :limit"
        ),
        values | {"limit": limit},
    )
    return [group_row(row) for row in rows]


def count_waiting_before(conn: Connection, group: GroupRow, *, now: datetime) -> int:
    """Eligible groups of all queues that the next cycle considers before this one. What has passed keeps
    nobody back: the instant of a backoff stays until the unit is admitted."""
    count = conn.execute(
        text(
            "SELECT count(DISTINCT g.id) FROM units u JOIN groups g ON g.id = u.group_id"  # noqa: S608
            " JOIN queues q ON q.id = g.queue_id JOIN groups own ON own.id = :id"
            " WHERE u.status = 'Pending' AND u.ended_at IS NULL AND NOT u.is_held AND q.stop = 'none'"
            " AND (u.backoff_until IS NULL OR u.backoff_until <= :now)"
            " AND (g.not_before_at IS NULL OR g.not_before_at <= :now) AND u.open_dependencies IS NULL"
            " AND CASE WHEN g.queue_id = own.queue_id"
            f" THEN (-g.priority, {length_of('g')}, g.submitted_at, g.id)"
            f" < (-own.priority, {length_of('own')}, own.submitted_at, own.id)"
            " ELSE (-g.priority, g.submitted_at, g.id) < (-own.priority, own.submitted_at, own.id) END"
        ),
        {"id": group.id, "now": now},
    ).scalar_one()
    return int(count)


def _conditions(wanted: GroupFilter) -> tuple[list[str], dict[str, Any]]:
    """Conditions in SQL that hold names of parameters only, and the values of those."""
    given: list[tuple[str, dict[str, Any]]] = []
    if wanted.viewer is not None:
        tenant, user = wanted.viewer
        rule = _OWN_OR_WAITING if wanted.shows_others else _OWN
        given.append((rule, {"viewer_tenant": tenant, "viewer_user": user}))
    if wanted.queue is not None:
        given.append(("q.name = :queue", {"queue": wanted.queue}))
    if wanted.owner is not None:
        given.append(("g.owner = :owner", {"owner": wanted.owner}))
    if wanted.name is not None:
        given.append(("g.name = :name", {"name": wanted.name}))
    if wanted.labels:
        given.append(("g.labels @> :labels", {"labels": Jsonb(dict(wanted.labels))}))
    if wanted.is_waiting:
        given.append((_WAITS, {}))
    if wanted.statuses:
        given.append((f"{_STATUS} = ANY(:statuses)", {"statuses": [s.value for s in wanted.statuses]}))
    values: dict[str, Any] = {}
    for _, named in given:
        values |= named
    return [condition for condition, _ in given], values
