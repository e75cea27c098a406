"""Answers that go on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from litestar.response import Stream
from litestar.response.base import ASGIResponse

#: Nobody on the way may keep a stream back to send it in one piece.
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class TypedStream(Stream):
    """A stream with a media type of its own: Litestar prefers that of the handler, which is that of
    the answer in one piece."""

    def __init__(self, content: AsyncGenerator[bytes], *, media_type: str) -> None:
        super().__init__(content, media_type=media_type, headers=_HEADERS)

    def to_asgi_response(self, *args: Any, **kwargs: Any) -> ASGIResponse:
        return super().to_asgi_response(*args, **(kwargs | {"media_type": self.media_type}))
