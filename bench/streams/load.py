"""Readers of event streams, and submits at a steady rate beside them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from bench.http_load import Target, UnexpectedAnswer, posted, read_answer
from service.clock import SystemClock


class _Told(msgspec.Struct):
    """What is looked at of an event."""

    id: int
    at: datetime


@dataclass(slots=True)
class Reader:
    """One stream: the ids of its events in the order in which they came, and how long each was under
    way since it was recorded."""

    group_id: str
    ids: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    async def read(self, target: Target, opened: Callable[[], None]) -> None:
        """Until the server ends the stream, or the task is cancelled."""
        reader, writer = await asyncio.open_connection(target.host, target.port)
        try:
            writer.write(_asked(target, self.group_id))
            status = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1]
            if status != b"200":
                raise UnexpectedAnswer(f"the stream of {self.group_id} answered {status.decode()}")
            is_open = False
            while line := await reader.readline():
                if line.startswith(b"data: {"):
                    self._note(line)
                    if not is_open:
                        is_open = True
                        opened()
        finally:
            writer.close()

    def _note(self, line: bytes) -> None:
        told = msgspec.json.decode(line[6:], type=_Told)
        self.ids.append(told.id)
        self.seconds.append((SystemClock().now() - told.at).total_seconds())


@dataclass(slots=True)
class Beside:
    """What was submitted while the streams were open: the time of each, from when it was due."""

    seconds: list[float] = field(default_factory=list)
    readers: list[Reader] = field(default_factory=list)


async def read_beside(
    target: Target,
    body: bytes,
    group_ids: Sequence[str],
    *,
    per_second: float,
    seconds: float,
    settle: Callable[[], Awaitable[None]],
) -> Beside:
    """Open a stream for each group; when all have told something, submit `body` at a steady rate, also if
    answers are late. `settle` is awaited before the streams are left."""
    found = Beside(readers=[Reader(group_id) for group_id in group_ids])
    missing, all_open = set(range(len(group_ids))), asyncio.Event()

    def opened(number: int) -> None:
        missing.discard(number)
        if not missing:
            all_open.set()

    readers = [
        asyncio.create_task(reader.read(target, lambda number=number: opened(number)))  # type: ignore[misc]
        for number, reader in enumerate(found.readers)
    ]
    try:
        async with asyncio.timeout(60):
            await all_open.wait()
        for reader in found.readers:
            reader.seconds.clear()  # the past, which is told at once
        found.seconds = await _submit(target, body, per_second=per_second, seconds=seconds)
        await settle()
        for task in readers:
            if task.done():
                task.result()
                raise UnexpectedAnswer("a stream has ended before its group")
    finally:
        for task in readers:
            task.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
    return found


async def _submit(target: Target, body: bytes, *, per_second: float, seconds: float) -> list[float]:
    """One task for each submit that is due; connections are used again."""
    free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    took: list[float] = []
    request = posted(target, body)

    async def one(due: float) -> None:
        reader, writer = free.pop() if free else await asyncio.open_connection(target.host, target.port)
        writer.write(request)
        status, answer = await read_answer(reader)
        took.append(time.perf_counter() - due)
        if status != target.status:
            raise UnexpectedAnswer(f"{target.path} answered {status}: {answer[:300].decode()}")
        free.append((reader, writer))

    began_at = time.perf_counter()
    try:
        async with asyncio.TaskGroup() as tasks:
            for number in range(round(per_second * seconds)):
                due = began_at + number / per_second
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                tasks.create_task(one(due))
    finally:
        for _, writer in free:
            writer.close()
    return took


def _asked(target: Target, group_id: str) -> bytes:
    return (
        f"GET /v1/groups/{group_id}/events HTTP/1.1\r\nHost: {target.host}:{target.port}\r\n"
        f"Authorization: Bearer {target.key}\r\nAccept: text/event-stream\r\n\r\n"
    ).encode()
