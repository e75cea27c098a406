"""Readers of event streams that come again with the last id that they saw."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass, field

from tests.faults.raw_http import RawHttp


@dataclass(slots=True)
class StreamReader:
    """One group's events. `ids` and `kinds` in the order in which they were told, over all connections."""

    group_id: str
    ids: list[int] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    connections: int = 0
    refusals: int = 0
    has_ended: bool = False
    has_begun: asyncio.Event = field(default_factory=asyncio.Event)
    _writer: asyncio.StreamWriter | None = None

    async def follow(self, http: RawHttp) -> None:
        """Until the stream says that the group has ended, over as many connections as it takes."""
        while not self.has_ended:
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._follow_once(http)
            if not self.has_ended:
                await asyncio.sleep(0.2)

    def cut(self) -> None:
        """Break the connection, as a network does."""
        if self._writer is not None:
            self._writer.transport.abort()

    async def _follow_once(self, http: RawHttp) -> None:
        reader, self._writer = await http.connect()
        last = [f"Last-Event-ID: {self.ids[-1]}"] if self.ids else []
        try:
            path = f"/v1/groups/{self.group_id}/events"
            self._writer.write(http.head("GET", path, "Accept: text/event-stream", *last))
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " not in head.partition(b"\r\n")[0]:
                self.refusals += 1
                return
            self.connections += 1
            kind = ""
            while line := await reader.readline():
                name, _, value = line.decode().rstrip().partition(": ")
                if name == "event":
                    kind = value
                elif name == "data" and kind == "end":
                    self.has_ended = True
                    return
                elif name == "data":
                    self.ids.append(json.loads(value)["id"])
                    self.kinds.append(kind)
                    self.has_begun.set()
        finally:
            self._writer.close()
            self._writer = None
