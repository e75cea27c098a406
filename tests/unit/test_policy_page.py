"""docs/policy.md names every setting that there is, and its file is one that is taken."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from service.api.schemas.cohort import CohortRequest
from service.api.schemas.policy import PolicyRequest, wanted_of
from service.api.schemas.queue import QueueRequest
from service.cli.policy_file import PolicyFile, policy_text
from service.domain.tree_rules import broken_tree_rules

PAGE = (Path(__file__).parents[2] / "docs" / "policy.md").read_text()


@pytest.mark.parametrize(
    ("title", "kind"), [("Settings of a queue", QueueRequest), ("Settings of a cohort", CohortRequest)]
)
def test_every_setting_is_told(title: str, kind: Any) -> None:
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    told = [name for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in row.split(", ")]
    assert {name.strip("`") for name in told} == {*kind.__struct_fields__} - {"name"}
    assert len(told) == len(set(told))


def test_the_file_on_the_page_is_canonical_and_sound() -> None:
    (text,) = re.findall(r"```yaml\n(priority_classes:.*?)```", PAGE, re.DOTALL)
    file = PolicyFile("policy.md", text)
    assert policy_text(file.body) == text
    wanted = wanted_of(msgspec.convert(file.body, PolicyRequest), is_all=True)
    assert broken_tree_rules(wanted.tree) == ()
