"""What limits a user, or a group, in a queue, and how much of it they hold; and what a queue has of its own
for a group that may not borrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
from sqlalchemy import Connection, text

from service.domain.shape import Shape
from service.store.group_reads import GroupRow


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLimitFacts:
    """Amounts by resource. `models`: of the GPUs of all nodes, those that the queue may use. `own`: GPUs of
    the queue's nominal quota, for a group that may use nothing else; None for others."""

    shape: Shape
    models: tuple[str, ...]
    user_limit: Mapping[str, int]
    group_limit: Mapping[str, int]
    user_holds: Mapping[str, int]
    group_holds: Mapping[str, int]
    own: Mapping[str, int] | None
    queue_holds: Mapping[str, int]


def find_own_limit_facts(conn: Connection, group: GroupRow) -> OwnLimitFacts | None:
    """None if the group's queue limits neither users nor groups, and the group may borrow like others."""
    row = conn.execute(
        text(
            "SELECT q.policy -> 'user_limit' AS user_limit, q.policy -> 'group_limit' AS group_limit,"
            " q.policy -> 'flavors' AS flavors, s.shape,"
            " q.cohort_id IS NOT NULL AND NOT g.is_preemptible AS is_bound_to_own"
            " FROM queues q, shapes s, groups g"
            " WHERE q.id = :queue_id AND s.id = :shape_id AND g.id = :group_id"
        ),
        {"queue_id": group.queue_id, "shape_id": group.shape_id, "group_id": group.id},
    ).one()
    if not (row.user_limit or row.group_limit or row.is_bound_to_own):
        return None
    models = [
        model
        for model in conn.execute(text("SELECT DISTINCT model FROM devices ORDER BY model")).scalars()
        if row.flavors is None or model in row.flavors
    ]
    mine = "g.queue_id = :queue_id AND g.tenant = :tenant AND g.owner = :owner"
    return OwnLimitFacts(
        shape=msgspec.convert(row.shape, Shape),
        models=tuple(models),
        own=_own(conn, group, models=models) if row.is_bound_to_own else None,
        queue_holds=_held(conn, group, whose="g.queue_id = :queue_id") if row.is_bound_to_own else {},
        user_limit=row.user_limit or {},
        group_limit=row.group_limit or {},
        user_holds=_held(conn, group, whose=mine),
        group_holds=_held(conn, group, whose="g.id = :group_id"),
    )


def _own(conn: Connection, group: GroupRow, *, models: Sequence[str]) -> dict[str, int]:
    """The nominal quota of the queue, of each model."""
    statement = text("SELECT resource, nominal FROM quotas WHERE queue_id = :queue_id AND nominal > 0")
    named = {row.resource: row.nominal for row in conn.execute(statement, {"queue_id": group.queue_id})}
    return {model: named.get(model, 0) for model in models}


def _held(conn: Connection, group: GroupRow, *, whose: str) -> dict[str, int]:
    rows = conn.execute(
        text(
            "SELECT resource, sum(amount::bigint)::bigint AS amount"  # noqa: S608
            " FROM attempts a JOIN groups g ON g.id = a.group_id,"
            f" jsonb_each_text(a.usage) AS used (resource, amount) WHERE {whose} GROUP BY resource"
        ),
        {
            "queue_id": group.queue_id,
            "tenant": group.tenant,
            "owner": group.owner,
            "group_id": group.id,
        },
    )
    return {row.resource: row.amount for row in rows}
