"""The record of what happened, which is also the leader's feed (W1)."""

from __future__ import annotations

from collections.abc import Iterable

from psycopg.types.json import Jsonb
from sqlalchemy import Connection

from service.domain.events import FEED, Event
from service.store.copying import copy_rows

_COLUMNS = (
    "is_feed",
    "at",
    "kind",
    "group_id",
    "unit_id",
    "node_id",
    "attempt",
    "generation",
    "cause",
    "actor",
    "data",
)


def add_events(conn: Connection, events: Iterable[Event]) -> None:
    """Record events in the open transaction; `xid` is set by the database."""
    copy_rows(conn, "events", columns=_COLUMNS, rows=(_row(event) for event in events))


def _row(event: Event) -> tuple[object, ...]:
    return (
        event.kind in FEED,
        event.at,
        event.kind.value,
        event.group_id,
        event.unit_id,
        event.node_id,
        event.attempt,
        event.generation,
        event.cause,
        event.actor,
        None if event.data is None else Jsonb(dict(event.data)),
    )
