"""What happened to a group."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from service.client.errors import Unreachable
from service.client.transport import Transport, segment


class Event(Struct, frozen=True, kw_only=True):
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


class EventPage(Struct, frozen=True, kw_only=True):
    events: list[Event]
    cursor: str | None


_PAGE = 500
_STREAM = "text/event-stream"


class Events:
    """The record of one group, oldest first."""

    def __init__(self, transport: Transport, group_id: str) -> None:
        self._transport = transport
        self._path = f"/v1/groups/{segment(group_id)}/events"

    def list(self) -> Iterator[Event]:
        """What has happened so far, page by page as it is asked for."""
        query: dict[str, Any] = {"limit": _PAGE}
        while True:
            page = self._transport.ask("GET", self._path, EventPage, query=query)
            yield from page.events
            if page.cursor is None:
                return
            query["cursor"] = page.cursor

    def follow(self, *, after: int = 0) -> Iterator[Event]:
        """What has happened since event `after`, and what happens, until the group has ended.

        Raises Unreachable if the stream breaks before that; go on with the last event's id.
        """
        headers = {"Accept": _STREAM, **({"Last-Event-ID": str(after)} if after else {})}
        with self._transport.stream(self._path, headers=headers) as answer:
            kind = ""
            for line in answer.iter_lines():
                name, _, value = line.partition(":")
                if name == "event":
                    kind = value.strip()
                elif name == "data" and kind != "end":
                    yield msgspec.json.decode(value, type=Event)
                if kind == "end":
                    return
        raise Unreachable(self._transport.url, "the stream broke off")
