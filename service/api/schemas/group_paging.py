"""Where a page of groups ended."""

from __future__ import annotations

from datetime import datetime

import msgspec

from service.api.schemas.sealed_cursor import open_cursor, seal_cursor
from service.operations.secret_box import SecretBox
from service.store.group_lists import ListKey


class _Key(msgspec.Struct, array_like=True, frozen=True):
    priority: int
    submitted_at: datetime
    id: int


def cursor_of(key: ListKey | None, box: SecretBox) -> str | None:
    """Sealed: the last group of a page may be another owner's, of which priority and time are not told."""
    return None if key is None else seal_cursor(_Key(key.priority, key.submitted_at, key.id), box)


def key_of(cursor: str | None, box: SecretBox) -> ListKey | None:
    """Raises InvalidRequest that names `cursor`."""
    if cursor is None:
        return None
    key = open_cursor(cursor, _Key, box)
    return ListKey(key.priority, key.submitted_at, key.id)
