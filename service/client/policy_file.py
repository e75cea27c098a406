"""Policy files: queues, cohorts and priority classes of a site in YAML, read and written."""

from __future__ import annotations

import io
import re
from functools import cached_property
from typing import Any

import yaml

from service.client.documents import parse_documents, read_text
from service.client.errors import FileWrong
from service.client.strict_yaml import Loader

#: The kinds of a file, and the fields of each, in the order in which they are written.
_PARTS = ("priority_classes", "cohorts", "queues")
_FIELDS = (
    "name",
    "value",
    "parent",
    "tenant",
    "cohort",
    "weight",
    "order",
    "stop",
    "nominal_quota",
    "borrowing_limit",
    "lending_limit",
    "limit",
    "user_limit",
    "group_limit",
    "flavors",
    "pools",
    "filling",
    "preempt_within",
    "reclaim",
    "min_runtime",
    "evictions_per_day",
    "highest_priority",
    "default_time_limit",
    "max_time_limit",
)


#: To find the places of a text of this size takes seconds.
_MOST_PLACED = 1024 * 1024


class PolicyFile:
    """A file as it was read: its one document, and where in it everything stands."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self._text = text
        documents = parse_documents(text, name=name) or [{}]
        if len(documents) > 1 or not isinstance(documents[0], dict):
            raise FileWrong(f"{name} is no single mapping with {', '.join(_PARTS)}")
        # A part of which all entries were taken out is null.
        self.body: dict[str, Any] = {part: said for part, said in documents[0].items() if said is not None}

    @property
    def names_nothing(self) -> bool:
        """Nothing is said to be: as a file looks whose writing failed, or that is of something else."""
        return not any(self.body.values())

    @property
    def sharers(self) -> list[dict[str, Any]]:
        """What it says of each cohort and queue."""
        return [said for part in ("cohorts", "queues") for said in self.body.get(part, ())]

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


def read_policy_file(path: str) -> PolicyFile:
    """Read `path`, `-` for standard input. Raises FileWrong that names file and line."""
    name, text = read_text(path)
    return PolicyFile(name, text)


def policy_text(policy: dict[str, Any]) -> str:
    """The file that says this policy: always the same text for the same policy."""
    parts = {
        part: [_ordered(entry) for entry in sorted(policy[part], key=lambda entry: str(entry["name"]))]
        for part in _PARTS
        if policy.get(part)
    }
    if not parts:
        return ""
    text = io.StringIO()
    for part, entries in parts.items():
        text.write("\n" if text.tell() else "")
        yaml.dump({part: entries}, text, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**31)
    return text.getvalue()


class _Dumper(yaml.SafeDumper):
    """Mappings and lists of an entry on one line each."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, indentless=False)


class _Inline(dict[str, Any]):
    """Amounts, on one line."""


class _InlineList(list[Any]):
    """Names, on one line."""


def _inline_map(dumper: yaml.SafeDumper, found: _Inline) -> yaml.Node:
    return dumper.represent_mapping("tag:yaml.org,2002:map", found, flow_style=True)


def _inline_list(dumper: yaml.SafeDumper, found: _InlineList) -> yaml.Node:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", found, flow_style=True)


_Dumper.add_representer(_Inline, _inline_map)
_Dumper.add_representer(_InlineList, _inline_list)


def _ordered(entry: dict[str, Any]) -> dict[str, Any]:
    return {field: _inline(entry[field]) for field in _FIELDS if field in entry}


def _inline(value: Any) -> Any:
    if isinstance(value, dict):
        return _Inline(sorted(value.items()))
    return _InlineList(value) if isinstance(value, list) else value


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
