"""Requests over kept connections at little cost: the load shares the cores with what it measures.

A general client would take longer for a request than the server does, and the figures would be its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_LONGEST_ANSWER_SECONDS = 60.0


class UnexpectedAnswer(Exception):
    """The server did not answer as a success."""


@dataclass(slots=True)
class Load:
    """What a run sent: the time of each request, and how long it went on in all."""

    seconds: list[float] = field(default_factory=list)
    took_seconds: float = 0.0

    @property
    def per_second(self) -> float:
        return len(self.seconds) / self.took_seconds


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where a load goes. `status` is what every answer has to be."""

    port: int
    path: str
    key: str = ""
    host: str = "127.0.0.1"
    status: int = 201


def drive(target: Target, bodies: Callable[[], Iterator[bytes]], *, connections: int) -> Load:
    """Send the bodies that `bodies()` gives for each connection, one after the other on each. Raises
    UnexpectedAnswer."""
    return asyncio.run(_drive(target, bodies, connections))


def until(deadline: float, body: bytes) -> Iterator[bytes]:
    """The same body again and again until `time.monotonic()` reaches `deadline`."""
    while time.monotonic() < deadline:
        yield body


async def _drive(target: Target, bodies: Callable[[], Iterator[bytes]], connections: int) -> Load:
    load, began_at = Load(), time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(connections):
            tasks.create_task(_connection(target, bodies(), load))
    load.took_seconds = time.monotonic() - began_at
    return load


async def _connection(target: Target, bodies: Iterator[bytes], load: Load) -> None:
    reader, writer = await asyncio.open_connection(target.host, target.port)
    try:
        for body in bodies:
            began_at = time.perf_counter()
            await post(reader, writer, target=target, body=body)
            load.seconds.append(time.perf_counter() - began_at)
    finally:
        writer.close()


async def post(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, target: Target, body: bytes
) -> None:
    """Ask, and wait for the answer. Raises UnexpectedAnswer."""
    writer.write(posted(target, body))
    async with asyncio.timeout(_LONGEST_ANSWER_SECONDS):
        status, answer = await read_answer(reader)
    if status != target.status:
        raise UnexpectedAnswer(f"{target.path} answered {status}: {answer[:300].decode()}")


def posted(target: Target, body: bytes) -> bytes:
    """A whole POST of JSON."""
    head = (
        f"POST {target.path} HTTP/1.1\r\nHost: {target.host}:{target.port}\r\n"
        f"Authorization: Bearer {target.key}\r\nContent-Type: application/json\r\nContent-Length: "
    ).encode()
    return b"%s%d\r\n\r\n%s" % (head, len(body), body)


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Status and body of an answer that says how long it is."""
    lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
    lengths = [line for line in lines if line[:15].lower() == b"content-length:"]
    return int(lines[0].split()[1]), await reader.readexactly(int(lengths[0][15:]))
