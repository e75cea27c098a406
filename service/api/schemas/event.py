"""Events as they are answered, in pages and in streams."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from service.domain.unit import index_of
from service.store.event_reads import EventRow
from service.wire.values import AnswerStruct


class EventAnswer(AnswerStruct, frozen=True, kw_only=True):
    """One change. `member` is told for independent groups: the member, or the last of a range."""

    id: int
    at: datetime
    kind: str
    actor: str | None
    member: int | None
    node: str | None
    attempt: int | None
    generation: int | None
    cause: str | None
    data: dict[str, Any] | None


class EventPageAnswer(AnswerStruct, frozen=True, kw_only=True):
    """`cursor` gets the next page; null on the last."""

    events: list[EventAnswer]
    cursor: str | None


def event_answer(row: EventRow, *, is_gang: bool) -> EventAnswer:
    return EventAnswer(
        id=row.id,
        at=row.at,
        kind=row.kind,
        actor=row.actor,
        member=None if is_gang or row.unit_id is None else index_of(row.unit_id),
        node=row.node,
        attempt=row.attempt,
        generation=row.generation,
        cause=row.cause,
        data=dict(row.data) if row.data else None,
    )


def sent_event(row: EventRow, *, is_gang: bool) -> bytes:
    """One server-sent event."""
    answer = msgspec.json.encode(event_answer(row, is_gang=is_gang))
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (row.id, row.kind.encode(), answer)
