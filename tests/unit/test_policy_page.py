"""docs/policy.md names every setting that there is, and its file is one that is taken."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from service.admission.policy import Policy
from service.client.policy_file import PolicyFile, policy_text
from service.domain.scheduling import UNSAID
from service.domain.tree_rules import broken_tree_rules
from service.settings import Settings
from service.wire.cohort import CohortRequest
from service.wire.policy import PolicyRequest, wanted_of
from service.wire.queue import QueueRequest
from service.wire.scheduling import SchedulingRequest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "policy.md").read_text()
EXAMPLE = ROOT / "tests/scenarios/files/100-the-worked-example-of-the-policy.yaml"


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


def test_every_setting_of_the_whole_cluster_is_told() -> None:
    section = PAGE.partition("## Settings of the whole cluster\n")[2].partition("\n## ")[0]
    variables = {name.lower() for name in re.findall(r"`MUSTER_(\w+)`", section)}
    assert variables == {each.name for each in fields(Policy)} == {each.name for each in fields(UNSAID)}
    assert variables <= set(Settings.__struct_fields__)
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \|", section, re.MULTILINE)
    told = [name.strip("`") for row in rows for name in row.split(", ")]
    assert sorted(told) == sorted({*SchedulingRequest.__struct_fields__, "scheduling"})


def test_the_example_is_what_the_scenario_plays() -> None:
    """Each instant of the table is one of the file, and each group of the file is in the table."""
    section = PAGE.partition("## An example\n")[2].partition("\n## ")[0]
    scenario = yaml.safe_load(EXAMPLE.read_text())
    steps = scenario["timeline"]
    instants = [int(at) for at in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)]
    assert instants == sorted({step["at"] for step in steps if step["do"] != "cycle"} | {561, 601})
    for step in steps:
        if step["do"] == "submit":
            row = re.search(rf"^\| {step['at']} \|.*$", section, re.MULTILINE)
            assert row is not None
            assert f"`{step['queue']}`" in row[0]
            assert str(step.get("time_limit_seconds", "")) in row[0]
    told = set(re.findall(r"\b[prs]\d\b", section)) | {"s2", "s3"}
    assert told == {name for step in steps for name in [*step.get("groups", []), step.get("group")] if name}
