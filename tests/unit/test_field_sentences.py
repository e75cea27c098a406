"""What is wrong with a field is said in sentences, not in types and patterns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from service.api.body import read_json
from service.api.openapi import document
from service.api.schemas.group import BatchRequest, GroupRequest
from service.api.schemas.key import KeyRequest
from service.api.schemas.node import DrainRequest
from service.domain.errors import InvalidRequest
from service.wire.cohort import CohortRequest
from service.wire.patterns import TOLD
from service.wire.policy import PolicyRequest
from service.wire.queue import QueueRequest
from service.wire.sentences import readable

_DURATION = "Write 90s, 10m, 4h, 1h30m or 2d, or a number of seconds."
_NAME = "Only letters, digits and . _ - may be in it, and a letter or a digit is first."
_LINE = (
    "Must be one line of text that can be seen, without tabs, other control characters and marks of the"
    " direction of writing."
)
_VARIABLE = "A variable's name is of letters, digits and _, and no digit is first."
_TOO_LARGE = '{"name": "g", "members": 1000000000000000000000000000000}'


@pytest.mark.parametrize(
    ("kind", "body", "field", "told"),
    [
        (GroupRequest, {"time_limit": "5x"}, "time_limit", _DURATION),
        (GroupRequest, {"time_limit": ""}, "time_limit", _DURATION),
        (GroupRequest, {"time_limit": True}, "time_limit", _DURATION),
        (GroupRequest, {"time_limit": -1}, "time_limit", "Must be at least 0."),
        (DrainRequest, {"deadline": "tomorrow"}, "deadline", _DURATION),
        (QueueRequest, {"name": "a b"}, "name", _NAME),
        (QueueRequest, {"name": "x" * 64}, "name", "Must have at most 63 characters."),
        (GroupRequest, {"name": ""}, "name", "Must not be empty."),
        (GroupRequest, {"name": "g", "command": []}, "command", "Must not be empty."),
        (GroupRequest, {"name": "g", "roles": [{"command": []}]}, "roles[0].command", "Must not be empty."),
        (GroupRequest, {"name": "a\nb"}, "name", _LINE),
        (GroupRequest, {"name": "a\0b"}, "name", _LINE),
        (GroupRequest, {"name": " \N{NO-BREAK SPACE}\N{ZERO WIDTH JOINER}"}, "name", _LINE),
        (GroupRequest, {"gpu": {"models": ["\N{RIGHT-TO-LEFT OVERRIDE}001H"]}}, "gpu.models[0]", _LINE),
        (GroupRequest, {"topology": {"required": " "}}, "topology.required", _LINE),
        (QueueRequest, {"name": "q", "nominal_quota": {"a\x9bb": 1}}, "nominal_quota", _LINE),
        (QueueRequest, {"name": "\N{CYRILLIC SMALL LETTER A}"}, "name", _NAME),
        (CohortRequest, {"name": " "}, "name", _NAME),
        (KeyRequest, {"user": "\N{RIGHT-TO-LEFT OVERRIDE}a"}, "user", _NAME),
        (KeyRequest, {"user": "a", "tenant": " "}, "tenant", _NAME),
        (GroupRequest, {"queue": "q\0"}, "queue", "Must not contain the character U+0000."),
        (GroupRequest, {"env": {"A B": "1"}}, "env.A B", _VARIABLE),
        (GroupRequest, {"env": {"A": 1}}, "env.A", "Must be text, not a number."),
        (GroupRequest, {"env": ["A=1"]}, "env", "Must be a map or null, not a list."),
        (GroupRequest, {"members": "four"}, "members", "Must be a whole number or null, not text."),
        (GroupRequest, {"members": 1.5}, "members", "Must be a whole number or null."),
        (GroupRequest, {"members": 0}, "members", "Must be at least 1."),
        (GroupRequest, {"cpus": 1e300}, "cpus", "Must be at most 10000."),
        (GroupRequest, {"command": "true"}, "command", "Must be a list or null, not text."),
        (GroupRequest, {"command": ["a"] * 1025}, "command", "Must have at most 1024 entries."),
        (GroupRequest, {"preemptible": "no"}, "preemptible", "Must be true or false, not text."),
        (GroupRequest, {"recovery": None}, "recovery", "Must be a map, not null."),
        (
            GroupRequest,
            {"scheduling": "both"},
            "scheduling",
            "Must be gang or independent, not 'both'.",
        ),
        (
            GroupRequest,
            {"after": [{"group": "0192f0c1-2345-7000-8000-0123456789ab", "when": "later"}]},
            "after[0].when",
            "Must be one of ok, not_ok or any, not 'later'.",
        ),
        (GroupRequest, {"gpu": {"model": "X"}}, "gpu.model", "There is no such field."),
        (BatchRequest, {"groups": [{"members": 1}]}, "groups[0].name", "This field is needed."),
    ],
)
def test_a_wrong_value(kind: type[Any], body: dict[str, Any], field: str, told: str) -> None:
    whole = {"name": "g"} | body if kind is GroupRequest else body
    with pytest.raises(InvalidRequest) as refused:
        read_json(json.dumps(whole).encode(), kind)
    assert [(each.field, each.message) for each in refused.value.errors] == [(field, told)]


@pytest.mark.parametrize(
    "name",
    [
        "Zürich 中文",
        " padded ",
        "\N{ARABIC LETTER MEEM}\N{ZERO WIDTH NON-JOINER}\N{ARABIC LETTER KHAH}",
        "\N{WOMAN}\N{ZERO WIDTH JOINER}\N{PERSONAL COMPUTER}",
    ],
)
def test_a_name_may_be_of_any_script(name: str) -> None:
    assert read_json(json.dumps({"name": name}).encode(), GroupRequest).name == name


def test_every_wrong_value_is_named_in_its_order() -> None:
    body = {
        "queues": [
            {"name": "a b", "weight": "much", "nominal_quota": {"mx": "4", "my": 1, "mz": -1}},
            {"name": "fine", "weight": 2},
            {"cohort": 5, "bogus": 1, "flavors": ["mx", 3], "highest_priority": {"boss": 1, "user": "x"}},
        ],
        "priority_classes": [{"name": "9", "value": 1}, "urgent"],
        "cohorts": None,
    }
    with pytest.raises(InvalidRequest) as refused:
        read_json(json.dumps(body).encode(), PolicyRequest)
    told = {each.field: each.message for each in refused.value.errors}
    assert [*told] == [
        "queues[0].name",
        "queues[0].weight",
        "queues[0].nominal_quota.mx",
        "queues[0].nominal_quota.mz",
        "queues[2].cohort",
        "queues[2].bogus",
        "queues[2].flavors[1]",
        "queues[2].highest_priority.boss",
        "queues[2].highest_priority.user",
        "queues[2].name",
        "priority_classes[0].name",
        "priority_classes[1]",
        "cohorts",
    ]
    assert told["queues[0].nominal_quota.mx"] == "Must be a number, not text."
    assert told["queues[2].bogus"] == "There is no such field."
    assert told["queues[2].name"] == "This field is needed."
    assert told["priority_classes[1]"] == "Must be a map, not text."
    assert refused.value.message == f"queues[0].name: {_NAME}"


def test_no_more_than_a_hundred_are_named() -> None:
    body = {"groups": [{"name": "g", "members": 0}] * 1000}
    with pytest.raises(InvalidRequest) as refused:
        read_json(json.dumps(body).encode(), BatchRequest)
    assert len(refused.value.errors) == 100


@pytest.mark.parametrize("body", ['["not", "a map"]', "3", "null", _TOO_LARGE])
def test_no_type_and_no_pattern_is_shown(body: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_json(body.encode(), GroupRequest)
    assert "`" not in refused.value.message
    assert "Expected" not in refused.value.message


def _patterns(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("pattern"), str):
            yield part["pattern"]
        for each in part.values():
            yield from _patterns(each)
    elif isinstance(part, list):
        for each in part:
            yield from _patterns(each)


def test_each_pattern_of_a_request_has_a_sentence() -> None:
    assert set(_patterns(document())) == set(TOLD)


def test_what_is_not_known_stays_as_it_is_said() -> None:
    assert readable("Invalid UUID") == "Invalid UUID."
    assert readable("It is wrong.") == "It is wrong."
