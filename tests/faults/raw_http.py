"""Many requests at once over real connections, byte by byte where it matters."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from service.client.address import Address


@dataclass(frozen=True, slots=True)
class Answer:
    """`status` 0: the connection ended without one."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float

    def json(self) -> Any:
        return json.loads(self.body)


class RawHttp:
    """Each request on a connection of its own."""

    def __init__(self, address: Address) -> None:
        host, port = urlsplit(address.url).netloc.split(":")
        self.host, self.port = host, int(port)
        self._key = address.key

    def head(self, method: str, path: str, *lines: str, length: int | None = None) -> bytes:
        """A request's head; `lines` are further fields."""
        said = [] if length is None else [f"Content-Length: {length}", "Content-Type: application/json"]
        given = [f"{method} {path} HTTP/1.1", "Host: muster", f"Authorization: Bearer {self._key}"]
        return "\r\n".join([*given, *said, *lines, "", ""]).encode()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.host, self.port)

    async def ask(self, method: str, path: str, *lines: str, body: object = None) -> Answer:
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        length = len(content) if body is not None else None
        return await self.send(self.head(method, path, "Connection: close", *lines, length=length) + content)

    async def send(self, request: bytes) -> Answer:
        """All that comes back until the connection ends."""
        began_at = time.perf_counter()
        reader, writer = await self.connect()
        received = b""
        try:
            with suppress(ConnectionError):
                writer.write(request)
                while chunk := await reader.read(1 << 16):
                    received += chunk
        finally:
            writer.close()
        return _parsed(received, time.perf_counter() - began_at)


def _parsed(received: bytes, seconds: float) -> Answer:
    top, _, body = received.partition(b"\r\n\r\n")
    line, *fields = top.decode("latin-1").split("\r\n")
    pairs = [field.partition(": ") for field in fields]
    headers = {name.lower(): value for name, _, value in pairs}
    return Answer(int(line.split(" ")[1]) if line else 0, headers, body, seconds)


async def all_of(calls: Sequence[Awaitable[Answer]], *, seconds: float = 60.0) -> list[Answer]:
    async with asyncio.timeout(seconds):
        return list(await asyncio.gather(*calls))
