"""The record of what happened, which is also the leader's feed (W1)."""

from __future__ import annotations

from collections.abc import Iterable

from psycopg.types.json import Jsonb
from sqlalchemy import Connection

from service.domain.events import FEED, Event
from service.store.copying import copy_rows
from service.store.pipe import Pipe, compact, json_rows

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


def send_events(pipe: Pipe, events: Iterable[Event]) -> None:
    """Record events as part of a trip, in their order: COPY would be trips of its own."""
    pipe.run(_ADD, json_rows(dict(zip(_COLUMNS, _values(event), strict=True)) for event in events))


def _row(event: Event) -> tuple[object, ...]:
    *values, data = _values(event)
    return (*values, None if data is None else Jsonb(data))


def _values(event: Event) -> tuple[object, ...]:
    return (
        event.is_feed or event.kind in FEED,
        event.at,
        event.kind.value,
        event.group_id,
        event.unit_id,
        event.node_id,
        event.attempt,
        event.generation,
        event.cause,
        event.actor,
        None if event.data is None else dict(event.data),
    )


_ADD = compact("""
    INSERT INTO events (is_feed, at, kind, group_id, unit_id, node_id, attempt, generation, cause, actor,
                        data)
    SELECT is_feed, at, kind, group_id, unit_id, node_id, attempt, generation, cause, actor, data
    FROM json_to_recordset(CAST($1 AS json))
        AS v (is_feed boolean, at timestamptz, kind text, group_id bigint, unit_id bigint, node_id bigint,
              attempt int, generation int, cause text, actor text, data jsonb)
""")
