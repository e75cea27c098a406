"""Clients that mean no good: each attack goes on for some seconds and leaves every connection closed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress

from tests.faults.raw_http import RawHttp

Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Attack = Callable[[RawHttp], Coroutine[None, None, None]]

CONNECTIONS = 1_000
_BOMBS = 100
_BODY = json.dumps({"name": "never", "command": ["x" * 10_000]}).encode()


@asynccontextmanager
async def connections(http: RawHttp, number: int) -> AsyncIterator[list[Pair]]:
    opened: list[Pair] = []
    try:
        while len(opened) < number:
            opened += await asyncio.gather(*(http.connect() for _ in range(min(50, number - len(opened)))))
        yield opened
    finally:
        for _, writer in opened:
            writer.transport.abort()


async def until_closed(pairs: list[Pair], *, seconds: float) -> None:
    """The server has to end every one of them."""

    async def drain(reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            while await reader.read(1 << 16):
                pass

    async with asyncio.timeout(seconds):
        await asyncio.gather(*(drain(reader) for reader, _ in pairs))


async def _send_to_all(http: RawHttp, content: bytes, *, number: int, seconds: float = 15.0) -> None:
    async with connections(http, number) as pairs:
        for _, writer in pairs:
            writer.write(content)
        await until_closed(pairs, seconds=seconds)


async def idle(http: RawHttp) -> None:
    await _send_to_all(http, b"", number=CONNECTIONS)


async def half_heads(http: RawHttp) -> None:
    await _send_to_all(http, http.head("POST", "/v1/groups", length=100)[:-2], number=CONNECTIONS)


async def half_bodies(http: RawHttp) -> None:
    content = http.head("POST", "/v1/groups", length=len(_BODY)) + _BODY[: len(_BODY) // 2]
    await _send_to_all(http, content, number=CONNECTIONS)


async def cut_bodies(http: RawHttp) -> None:
    """Headers and half of a body, and then the connection breaks."""
    content = http.head("POST", "/v1/groups", length=len(_BODY)) + _BODY[: len(_BODY) // 2]
    async with connections(http, CONNECTIONS) as pairs:
        for _, writer in pairs:
            writer.write(content)
            await writer.drain()


async def head_bombs(http: RawHttp) -> None:
    bomb = http.head("GET", "/v1/groups")[:-2] + b"".join(
        b"X-%d: %b\r\n" % (each, b"y" * 90) for each in range(5_000)
    )
    await _send_to_all(http, bomb, number=_BOMBS)


async def large_bodies(http: RawHttp) -> None:
    said = http.head("POST", "/v1/groups/batch", "Connection: close", length=10**10) + b"x" * 100_000
    grown = http.head("POST", "/v1/groups/batch", "Connection: close", "Transfer-Encoding: chunked")
    async with connections(http, 10) as pairs:
        for number, (_, writer) in enumerate(pairs):
            writer.write(said if number % 2 else grown)
            if number % 2 == 0:
                for _ in range(20):
                    writer.write(b"100000\r\n" + b" " * (1 << 20) + b"\r\n")
        await until_closed(pairs, seconds=30)


async def garbage(http: RawHttp) -> None:
    """Whatever is not HTTP, alone and behind requests that are."""
    asked = http.head("GET", "/v1/queues")
    kinds = (
        b"\x16\x03\x01\x02\x00\x01",
        asked + b"\x00\xff\r\n\r\n",
        asked * 20 + b"!!! ???\r\n\r\n",
        b"\r\n" * 1000 + b"<>\r\n\r\n",
    )
    for content in kinds:
        await _send_to_all(http, content, number=100)


async def wrong_lengths(http: RawHttp) -> None:
    whole = json.dumps({"name": "never"}).encode()
    for lines in (
        ["Content-Length: 5"],
        ["Content-Length: 500"],
        ["Content-Length: 2", "Transfer-Encoding: chunked"],
    ):
        await _send_to_all(http, http.head("POST", "/v1/groups", *lines) + whole, number=100)


async def unread_answers(http: RawHttp) -> None:
    """Asks for much and takes nothing of it."""
    asked = http.head("GET", "/openapi.json") * 100
    async with connections(http, 100) as pairs:
        for reader, writer in pairs:
            reader._limit = 1  # type: ignore[attr-defined]
            writer.write(asked)
        # The transport reads ahead a little, then no more: the server has to give up.
        await asyncio.sleep(6)


ATTACKS: Mapping[str, Attack] = {
    attack.__name__: attack
    for attack in (
        idle,
        half_heads,
        half_bodies,
        cut_bodies,
        head_bombs,
        large_bodies,
        garbage,
        wrong_lengths,
        unread_answers,
    )
}
