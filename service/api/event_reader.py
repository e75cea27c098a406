"""Reads the events of many groups at once, on one connection, for the streams of a process."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, Engine

from service.store.event_reads import (
    EventRow,
    SeenSnapshot,
    list_ended_groups,
    list_event_pages,
    list_new_events,
    read_snapshot,
)

#: No transaction lives for so long: ids that were given before it began to count are all visible.
_SETTLED_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Found:
    """What a look brought: `new` by group, pages by group and the id that they begin behind. `ended`: of
    the groups that were looked at, those that nothing will happen to any more."""

    new: Mapping[int, Sequence[EventRow]] = field(default_factory=dict)
    pages: Mapping[tuple[int, int], Sequence[EventRow]] = field(default_factory=dict)
    ended: frozenset[int] = frozenset()


class EventReader:
    """Used by one thread at a time."""

    def __init__(self, engine: Engine, *, page: int) -> None:
        self._engine = engine
        self._page = page
        self._conn: Connection | None = None
        self._seen: SeenSnapshot | None = None
        self._settled_id = self._next_settled_id = 0
        self._settles_at = 0.0

    @property
    def is_following(self) -> bool:
        """Whether a look can tell what is new: the first one on a connection cannot (W3)."""
        return self._seen is not None

    def look(self, following: Collection[int], behind: Collection[tuple[int, int]]) -> Found:
        """What is new of the groups in `following`, and a page of each (group, id) of `behind`.

        One transaction, so that what is read in pages and what is read as new fit together.
        """
        if self._conn is None:
            self._conn = self._engine.connect().execution_options(isolation_level="REPEATABLE READ")
        with self._conn.begin():
            present = read_snapshot(self._conn)
            if present.is_like(self._seen) and not behind:
                return Found()
            new = self._new(self._conn, following)
            pages = list_event_pages(self._conn, behind, limit=self._page)
            asked = {*new, *(group_id for group_id, _ in behind)}
            ended = list_ended_groups(self._conn, asked) if asked else frozenset()
        self._seen = present
        self._settle(present)
        return Found(new, pages, ended)

    def drop_connection(self) -> None:
        conn, self._conn, self._seen = self._conn, None, None
        self._settled_id = self._next_settled_id = 0
        if conn is not None:
            conn.close()

    def _new(self, conn: Connection, group_ids: Collection[int]) -> dict[int, list[EventRow]]:
        by_group: dict[int, list[EventRow]] = {}
        if group_ids and self._seen is not None:
            for event in list_new_events(conn, group_ids, since=self._seen, after=self._settled_id):
                by_group.setdefault(event.group_id, []).append(event)
        return by_group

    def _settle(self, present: SeenSnapshot) -> None:
        """Of a group with a long past only what is young is looked through."""
        now = time.monotonic()
        if now >= self._settles_at:
            self._settled_id, self._next_settled_id = self._next_settled_id, present.last_id
            self._settles_at = now + _SETTLED_SECONDS
