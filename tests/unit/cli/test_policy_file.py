"""Policy files: read, written in one canonical form, and their lines found again."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given

from service.client.errors import FileWrong
from service.client.policy_file import PolicyFile, policy_text
from service.client.strict_yaml import Loader
from tests.integration.api.policies import policies

TEXT = """\
priority_classes:
  - name: urgent
    value: 1000

cohorts:
  - name: org
    nominal_quota: {A100-40GB: 4, H100.80GB: 8}

queues:
  - name: 'null'
    cohort: org
    weight: 2.5
    nominal_quota: {}
    lending_limit: {A100-40GB: 1}
  - name: research
    cohort: org
    nominal_quota: {H100.80GB: 8}
    flavors: [A100-40GB, H100.80GB]
    max_time_limit: 1d
"""


def test_a_canonical_file_is_written_as_it_was_read() -> None:
    assert policy_text(PolicyFile("p.yaml", TEXT).body) == TEXT


def test_entries_and_amounts_have_an_order() -> None:
    mixed = {
        "queues": [{"limit": {"b": 1, "a": 2}, "name": "z"}, {"name": "a"}],
        "cohorts": [],
        "priority_classes": [],
    }
    assert policy_text(mixed) == "queues:\n  - name: a\n  - name: z\n    limit: {a: 2, b: 1}\n"


@given(policies)
def test_every_policy_is_read_as_it_was_written(policy: dict[str, Any]) -> None:
    text = policy_text(policy)
    read = yaml.load(text, Loader=Loader) or {}
    assert read == {
        part: entries if part == "scheduling" else sorted(entries, key=lambda each: each["name"])
        for part, entries in policy.items()
        if entries
    }
    assert policy_text(read) == text


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("priority_classes[0].value", 3),
        ("cohorts[0].nominal_quota.H100.80GB", 7),
        ("queues[0]", 10),
        ("queues[0].lending_limit.A100-40GB", 14),
        ("queues[1].lending_limit", 15),
        ("queues[1].max_time_limit", 19),
        ("queues[9].name", 9),
        ("queue gone", None),
        ("bogus", None),
        ("", None),
    ],
)
def test_a_place_has_a_line(path: str, line: int | None) -> None:
    assert PolicyFile("p.yaml", TEXT).line_of(path) == line


@pytest.mark.parametrize("text", ["- name: a\n", "a: 1\n---\nb: 1\n", "text\n"])
def test_something_else_than_one_mapping_is_refused(text: str) -> None:
    with pytest.raises(FileWrong, match=r"^p\.yaml"):
        PolicyFile("p.yaml", text)


def test_an_empty_file_says_nothing() -> None:
    assert PolicyFile("p.yaml", "# nothing\n").body == {}
    assert policy_text({"queues": []}) == ""
