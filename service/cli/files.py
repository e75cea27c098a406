"""Group files: YAML or JSON, with one group, a list of groups, or several YAML documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from service.client.documents import parse_documents, read_text
from service.client.errors import FileWrong


@dataclass(frozen=True)
class GroupFile:
    """Groups as they will be sent. `is_batch`: taken all together or not at all."""

    groups: tuple[dict[str, Any], ...]
    is_batch: bool


def read_group_file(path: str) -> GroupFile:
    """Read `path`, `-` for standard input. Raises FileWrong that names file and line."""
    name, text = read_text(path)
    return parse_group_file(text, name=name)


def parse_group_file(text: str, *, name: str) -> GroupFile:
    """Take a text apart. Raises FileWrong that begins with `name`."""
    documents = parse_documents(text, name=name)
    if not documents:
        raise FileWrong(f"{name} holds no group")
    if len(documents) == 1 and isinstance(documents[0], list):
        return GroupFile(_mappings(documents[0], name), is_batch=True)
    return GroupFile(_mappings(documents, name), is_batch=len(documents) > 1)


def _mappings(values: list[object], name: str) -> tuple[dict[str, Any], ...]:
    if not values:
        raise FileWrong(f"{name} holds no group")
    for number, value in enumerate(values, start=1):
        if not isinstance(value, dict):
            which = f"group {number}" if len(values) > 1 else "the group"
            raise FileWrong(f"{name}: {which} is no mapping of fields, but {_kind(value)}")
    return tuple(value for value in values if isinstance(value, dict))


def _kind(value: object) -> str:
    return {str: "a text", list: "a list", int: "a number", float: "a number", bool: "a truth value"}.get(
        type(value), "something else"
    )
