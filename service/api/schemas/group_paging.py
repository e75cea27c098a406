"""Cursors: where a page ended, as text that means nothing to its reader."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime

import msgspec

from service.domain.errors import FieldError, InvalidRequest
from service.store.group_lists import ListKey

LONGEST = 200


class _Key(msgspec.Struct, array_like=True, frozen=True):
    priority: int
    submitted_at: datetime
    id: int


def cursor_of(key: ListKey | None) -> str | None:
    if key is None:
        return None
    packed = msgspec.msgpack.encode(_Key(key.priority, key.submitted_at, key.id))
    return base64.urlsafe_b64encode(packed).decode()


def key_of(cursor: str | None) -> ListKey | None:
    """Raises InvalidRequest that names `cursor`."""
    if cursor is None:
        return None
    try:
        key = msgspec.msgpack.decode(base64.b64decode(cursor, altchars=b"-_", validate=True), type=_Key)
        if not (abs(key.priority) < 1 << 31 and 0 <= key.id < 1 << 43 and key.submitted_at.tzinfo):
            raise ValueError("out of bounds")
    except (binascii.Error, ValueError, msgspec.DecodeError):
        error = FieldError("cursor", "is not a cursor of this list; take it from the page before")
        raise InvalidRequest(f"cursor {error.message}", errors=[error]) from None
    return ListKey(key.priority, key.submitted_at, key.id)
