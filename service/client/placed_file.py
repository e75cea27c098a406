"""A file of one mapping, and where in it everything stands."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

import yaml

from service.client.documents import parse_documents
from service.client.errors import FileWrong
from service.client.strict_yaml import Loader

#: To find the places of a text of this size takes seconds.
_MOST_PLACED = 1024 * 1024


class PlacedFile:
    """Raises FileWrong if the text is no single mapping. `parts`: what it may name, for people."""

    def __init__(self, name: str, text: str, *, parts: tuple[str, ...]) -> None:
        self.name = name
        self._text = text
        documents = parse_documents(text, name=name) or [{}]
        if len(documents) > 1 or not isinstance(documents[0], dict):
            raise FileWrong(f"{name} is no single mapping with {', '.join(parts)}")
        # A part of which all entries were taken out is null.
        self.body: dict[str, Any] = {part: said for part, said in documents[0].items() if said is not None}

    def told(self, path: str, message: str) -> str:
        """The message with the place of what it is about."""
        line = self.line_of(path)
        where = self.name if line is None else f"{self.name}, line {line}"
        return f"{where}: {path}: {message}" if path else f"{where}: {message}"

    def line_of(self, path: str) -> int | None:
        """The line of `queues[3].lending_limit.H100-80GB`, or of the innermost part of it that is there;
        None if nothing of it is, and of a very large file."""
        if len(self._text) > _MOST_PLACED:
            return None
        node, line = self._node, None
        while node is not None and path:
            node, path, found = _step(node, path)
            line = found or line
        return line

    @cached_property
    def _node(self) -> yaml.Node | None:
        """With the places of everything; a large file with many errors is taken apart once."""
        return yaml.compose(self._text, Loader=Loader)


def _step(node: yaml.Node, path: str) -> tuple[yaml.Node | None, str, int | None]:
    """One part of the path: what it leads to, the rest of the path, and the line."""
    path = path.removeprefix(".")
    index = re.match(r"\[(\d+)\]", path)
    if isinstance(node, yaml.SequenceNode) and index is not None and int(index[1]) < len(node.value):
        found = node.value[int(index[1])]
        return found, path[index.end() :], found.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        # A flavor may have dots in it.
        for key, value in node.value:
            rest = path.removeprefix(str(key.value))
            if rest != path and rest[:1] in ("", ".", "["):
                return value, rest, key.start_mark.line + 1
    return None, "", None
