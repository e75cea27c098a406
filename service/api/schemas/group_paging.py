"""Cursors: where a page ended, as text that means nothing to its reader."""

from __future__ import annotations

from datetime import datetime

import msgspec

from service.domain.errors import FieldError, InvalidRequest
from service.operations.secret_box import SecretBox
from service.store.group_lists import ListKey

LONGEST = 300


class _Key(msgspec.Struct, array_like=True, frozen=True):
    priority: int
    submitted_at: datetime
    id: int


def cursor_of(key: ListKey | None, box: SecretBox) -> str | None:
    """Sealed: the last group of a page may be another owner's, of which priority and time are not told."""
    if key is None:
        return None
    return box.seal_cursor(msgspec.msgpack.encode(_Key(key.priority, key.submitted_at, key.id)))


def key_of(cursor: str | None, box: SecretBox) -> ListKey | None:
    """Raises InvalidRequest that names `cursor`."""
    if cursor is None:
        return None
    try:
        key = msgspec.msgpack.decode(box.open_cursor(cursor), type=_Key)
    except (ValueError, msgspec.DecodeError):
        error = FieldError("cursor", "is not a cursor of this list; take it from the page before")
        raise InvalidRequest(f"cursor {error.message}", errors=[error]) from None
    return ListKey(key.priority, key.submitted_at, key.id)
