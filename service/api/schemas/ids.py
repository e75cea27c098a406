"""Ids in addresses."""

from __future__ import annotations

import re
from uuid import UUID

from service.domain.errors import NotFound

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def group_id_of(text: str) -> UUID:
    """A group's id. What cannot be one answers as an id that no group has: NotFound."""
    if not _UUID.fullmatch(text):
        raise NotFound("There is no such group.")
    return UUID(text)
