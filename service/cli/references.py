"""GROUP on the command line: an id, eight or more characters of its start or end, or a name.

Of several groups with one name it means the one that has not ended, if there is just one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import rich_click as click

from service.cli import exits
from service.cli.styles import has_ended

if TYPE_CHECKING:
    from service.client import Client
    from service.client.groups import GroupBrief

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
#: A mistyped name must not be a part of somebody's id by chance.
_PART = re.compile(r"[0-9a-f-]{8,35}", re.IGNORECASE)
#: Among so many of the newest groups a part of an id is looked for.
_LOOKED_AT = 5000
_LISTED = 10


class UnknownGroup(click.ClickException):
    """No group is meant."""

    exit_code = exits.NOT_FOUND


class AmbiguousGroup(click.ClickException):
    """More than one group is meant."""

    exit_code = exits.USAGE


def find_group_id(client: Client, text: str) -> str:
    """The id of the group that `text` means. Raises UnknownGroup, or AmbiguousGroup that lists ids."""
    if not text:
        raise UnknownGroup("an empty text names no group")
    if _ID.fullmatch(text):
        return text.lower()
    named = list(client.list_groups(name=text))
    # A name is used again and again; it means the one that has not ended, if there is just one.
    live = [group for group in named if group.status and not has_ended(group.status)]
    found = live if len(live) == 1 else named or _by_part(client, text)
    if not found:
        raise UnknownGroup(f"there is no group with the name, or a part of the id, {text!r}")
    if len(found) > 1:
        raise AmbiguousGroup(f"{text!r} may be any of {len(found)} groups; give the id:\n{_choices(found)}")
    assert found[0].id is not None
    return found[0].id


def _by_part(client: Client, text: str) -> list[GroupBrief]:
    if not _PART.fullmatch(text):
        return []
    part = text.lower()
    groups = (group for _, group in zip(range(_LOOKED_AT), client.list_groups(), strict=False))
    return [group for group in groups if group.id and (group.id.startswith(part) or group.id.endswith(part))]


def _choices(groups: list[GroupBrief]) -> str:
    lines = [f"  {group.id}  {group.name}  {group.status}" for group in groups[:_LISTED]]
    return "\n".join([*lines, *(["  ..."] if len(groups) > _LISTED else [])])
