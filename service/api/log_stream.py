"""A member's log over HTTP: parts of it, or all of it while it grows."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from litestar.concurrency import sync_to_thread
from sqlalchemy import Engine

from service.api.event_hub import CutOff, EventHub, Listener
from service.domain.principal import Principal
from service.operations.member_logs import LogSlice, log_path, read_log
from service.operations.read_members import LogTarget, find_log

#: How long a follower waits before it looks at the file again.
PAUSE_SECONDS = 0.25
_CHUNK_BYTES = 1 << 18
_TAIL_BYTES = 1 << 18
_BEHIND_THE_END = (1 << 62) - 1


@dataclass(frozen=True, slots=True)
class LogReader:
    """The logs of one member, for one reader. `attempt` and `generation` None: the newest."""

    engine: Engine
    data: Path
    public_id: UUID
    member: int
    principal: Principal
    attempt: int | None = None
    generation: int | None = None

    def find(self) -> LogTarget:
        """Whose log it is now. Raises NotFound."""
        return find_log(
            self.engine,
            self.public_id,
            member=self.member,
            principal=self.principal,
            attempt=self.attempt,
            generation=self.generation,
        )

    def read(self, target: LogTarget, offset: int, limit: int) -> LogSlice:
        """A part of a log; an empty one if nothing was written yet."""
        return read_log(self.data, target, offset=offset, limit=limit) or LogSlice(0, b"", 0)

    def tail(self, target: LogTarget, lines: int) -> LogSlice:
        """The last lines, as far as they lie in the last quarter of a MiB."""
        size = self.read(target, _BEHIND_THE_END, 1).size
        last = self.read(target, max(0, size - _TAIL_BYTES), _TAIL_BYTES)
        kept = b"".join(last.content.splitlines(keepends=True)[-lines:]) if lines else b""
        return LogSlice(last.next_offset - len(kept), kept, last.size)

    def stamp(self, target: LogTarget) -> tuple[int, int] | None:
        """Differs when there is something new to read. Cheap enough for the event loop."""
        try:
            found = log_path(self.data, target).stat()
        except OSError:
            return None
        return found.st_ino, found.st_size


class _Followed:
    """How far a log was read."""

    def __init__(self, reader: LogReader, target: LogTarget, offset: int) -> None:
        self.target = target
        self._reader = reader
        self._offset = offset
        self._stamp: tuple[int, int] | None = None

    async def new(self) -> AsyncGenerator[bytes]:
        """What was written since the last look, if the file says that there is something."""
        if (stamp := self._reader.stamp(self.target)) != self._stamp:
            self._stamp = stamp
            async for content in self.rest():
                yield content

    async def rest(self) -> AsyncGenerator[bytes]:
        """Everything up to the end that the log has now."""
        while True:
            part = await sync_to_thread(self._reader.read, self.target, self._offset, _CHUNK_BYTES)
            self._offset = max(self._offset, part.next_offset)
            if not part.content:
                return
            yield part.content


async def follow_log(
    hub: EventHub, listener: Listener, reader: LogReader, target: LogTarget, *, offset: int
) -> AsyncGenerator[bytes]:
    """Everything from `offset` on; a restarted member's new log follows its old one. Ends when the
    member has ended for good, and when the hub is closed."""
    log = _Followed(reader, target, offset)
    with contextlib.suppress(CutOff):
        async for events in hub.listen(listener, patience=PAUSE_SECONDS):
            async for content in log.new():
                yield content
            if events is None and not target.has_ended:
                continue
            target = await sync_to_thread(reader.find)
            if not target.is_same_log(log.target):
                async for content in log.rest():
                    yield content
                log = _Followed(reader, target, 0)
            if target.has_ended:
                break
    async for content in log.rest():
        yield content
