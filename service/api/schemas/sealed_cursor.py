"""Cursors that mean nothing to their reader: where a page ended, sealed."""

from __future__ import annotations

from typing import Annotated, TypeAlias, TypeVar

import msgspec
from litestar.params import QueryParameter

from service.domain.errors import FieldError, InvalidRequest
from service.operations.secret_box import SecretBox

Key = TypeVar("Key", bound=msgspec.Struct)

#: Of the longest names that there can be.
_LONGEST = 1000
CursorText: TypeAlias = Annotated[str | None, QueryParameter(max_length=_LONGEST)]


def seal_cursor(key: msgspec.Struct, box: SecretBox) -> str:
    return box.seal_cursor(msgspec.msgpack.encode(key))


def open_cursor(cursor: str, kind: type[Key], box: SecretBox) -> Key:
    """Raises InvalidRequest that names `cursor`."""
    try:
        return msgspec.msgpack.decode(box.open_cursor(cursor), type=kind)
    except (ValueError, msgspec.DecodeError):
        error = FieldError("cursor", "is not a cursor of this list; take it from the page before")
        raise InvalidRequest(f"cursor {error.message}", errors=[error]) from None
