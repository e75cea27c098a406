"""What a group waits for that would rather have one GPU model than another: as of now, told with what keeps
it from that model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection

from service.admission.waiting.fallback import Awaited, awaited_by, shape_at
from service.domain.reasons import Code, Reason
from service.domain.shape import Shape
from service.domain.wording import message
from service.store.group_reads import GroupRow
from service.store.shapes import get_shape_on_terms

#: Reasons that speak of the models that are considered now.
_OF_MODELS = frozenset(
    {
        Code.QUOTA_EXCEEDED,
        Code.BORROWING_LIMIT,
        Code.LENDING_LIMIT,
        Code.INSUFFICIENT_GPUS,
        Code.INSUFFICIENT_CPU,
        Code.INSUFFICIENT_MEMORY,
        Code.FRAGMENTED,
        Code.TOPOLOGY_UNSATISFIED,
        Code.NO_MATCHING_FLAVOR,
        Code.NODES_UNAVAILABLE,
        Code.DEVICES_UNHEALTHY,
        Code.HELD_FOR_CLAIM,
        Code.PREEMPTION_IN_PROGRESS,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Considered:
    """A shape with the models that are considered now, and what changes next; None if all of them are."""

    shape: Shape
    next: Awaited | None


def find_considered(conn: Connection, group: GroupRow, *, since: datetime, now: datetime) -> Considered:
    """`since`: since when the group waits."""
    shape = get_shape_on_terms(conn, shape_id=group.shape_id, queue_id=group.queue_id)
    awaited = awaited_by(shape, since, now)
    return Considered(
        shape=shape_at(shape, since, now),
        next=min(awaited, key=lambda each: each.until, default=None),
    )


def with_awaited(reasons: Sequence[Reason], awaited: Awaited | None) -> list[Reason]:
    """The most decisive reason that is about models says that there are others, and when."""
    if awaited is None:
        return list(reasons)
    first = next((at for at, reason in enumerate(reasons) if reason.code in _OF_MODELS), None)
    return [_told(reason, awaited) if at == first else reason for at, reason in enumerate(reasons)]


def _told(reason: Reason, awaited: Awaited) -> Reason:
    scope = {
        **reason.scope,
        "awaited": " or ".join(awaited.models),
        "fallback": awaited.then,
        "fallback_at": awaited.until.isoformat(timespec="seconds"),
    }
    text = message(
        reason.code,
        need=reason.need,
        have=reason.have,
        limit=reason.limit,
        scope=scope,
        holders=reason.holders,
    )
    return replace(reason, scope=scope, message=text)
