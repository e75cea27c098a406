"""Policy files: how a site decides, its queues, cohorts and priority classes in YAML, read and written."""

from __future__ import annotations

import io
from typing import Any

import yaml

from service.client.documents import read_text
from service.client.placed_file import PlacedFile

_SCHEDULING = "scheduling"
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
    "order_by",
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


class PolicyFile(PlacedFile):
    """A policy as it was read."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(name, text, parts=(_SCHEDULING, *_PARTS))

    @property
    def names_nothing(self) -> bool:
        """Nothing is said to be: as a file looks whose writing failed, or that is of something else."""
        return not any(self.body.values())

    @property
    def sharers(self) -> list[dict[str, Any]]:
        """What it says of each cohort and queue."""
        return [said for part in ("cohorts", "queues") for said in self.body.get(part, ())]


def read_policy_file(path: str) -> PolicyFile:
    """Read `path`, `-` for standard input. Raises FileWrong that names file and line."""
    name, text = read_text(path)
    return PolicyFile(name, text)


def policy_text(policy: dict[str, Any]) -> str:
    """The file that says this policy: always the same text for the same policy."""
    parts: dict[str, Any] = {_SCHEDULING: policy[_SCHEDULING]} if policy.get(_SCHEDULING) else {}
    parts |= {
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
