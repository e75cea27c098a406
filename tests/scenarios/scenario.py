"""A scenario file: read, validated against the closed vocabulary, and every name resolved.

Whatever the vocabulary does not know is an error of the file; nothing is ever skipped.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from tests.scenarios import features

Map = dict[str, Any]

_SCHEMA = json.loads((Path(__file__).parent / "schema.json").read_text())
_VALIDATOR = jsonschema.Draft202012Validator(
    _SCHEMA, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
)


class ScenarioError(Exception):
    """The file says something that the vocabulary does not know."""


@dataclass(frozen=True)
class Scenario:
    """One validated file. `groups` maps each submitted name to the groups that it stands for."""

    path: Path
    body: Map
    groups: dict[str, list[str]]

    @property
    def id(self) -> str:
        return str(self.body["id"])

    @property
    def is_timeline(self) -> bool:
        return bool(self.body["kind"] == "timeline")

    @property
    def needs(self) -> list[str]:
        return list(self.body["needs"])

    def cohorts(self) -> list[Map]:
        """Parents before what is in them: those of the file, in its order, then what queues alone name."""
        named = list(self.body.get("cohorts", []))
        known = {cohort["name"] for cohort in named}
        others = {queue["cohort"] for queue in self.body["queues"] if "cohort" in queue} - known
        return [*named, *({"name": name} for name in sorted(others))]

    def members_of(self, name: str) -> list[str]:
        """The groups that `name` stands for: itself, or x1 ... xN of a counted submit."""
        return self.groups[name]

    def blocks_after(self, step: int) -> list[Map]:
        return [block for block in self.body["right"] if block["after"] == step]


def read(path: Path) -> Scenario:
    """Read and check one file. Raises ScenarioError naming what is wrong and where."""
    body = yaml.safe_load(path.read_text())
    errors = sorted(_VALIDATOR.iter_errors(body), key=lambda error: list(map(str, error.path)))
    if errors:
        best = jsonschema.exceptions.best_match(errors)
        assert best is not None
        raise ScenarioError(f"{path.name}: {'/'.join(map(str, best.absolute_path))}: {best.message}")
    unknown = [need for need in body["needs"] if need not in features.ALL]
    if unknown:
        raise ScenarioError(f"{path.name}: unknown features {unknown}")
    scenario = Scenario(path, body, _groups(body))
    if scenario.is_timeline:
        _check_steps(scenario)
        _check_names(scenario)
    return scenario


def files_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.yaml"))


def step_groups(step: Map) -> list[str]:
    """The names of `group` or `groups` of a step."""
    if "groups" in step:
        return list(step["groups"])
    return [step["group"]] if "group" in step else []


def _groups(body: Map) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for step in body.get("timeline", []):
        if step["do"] == "submit":
            for name in step_groups(step):
                groups[name] = (
                    [f"{name}{i}" for i in range(1, step["count"] + 1)] if "count" in step else [name]
                )
        if step["do"] == "submit_batch":
            groups |= {entry["group"]: [entry["group"]] for entry in step["batch"]}
    singles = {
        single: [single] for name, several in groups.items() if several != [name] for single in several
    }
    return singles | groups


def _check_steps(scenario: Scenario) -> None:
    steps = scenario.body["timeline"]
    numbers = [step["step"] for step in steps]
    if numbers != list(range(1, len(steps) + 1)):
        raise ScenarioError(f"{scenario.path.name}: steps are numbered 1, 2, ... without gap, not {numbers}")
    instants = [step["at"] for step in steps]
    if instants != sorted(instants):
        raise ScenarioError(f"{scenario.path.name}: time goes back: {instants}")
    after = [block["after"] for block in scenario.body["right"]]
    if after != sorted(after) or not set(after) <= set(numbers):
        raise ScenarioError(f"{scenario.path.name}: blocks of `right` follow steps in order, not {after}")


def _check_names(scenario: Scenario) -> None:
    body = scenario.body
    known = {
        "group": set(scenario.groups),
        "node": {node["name"] for node in body["cluster"]["nodes"]},
        "queue": {queue["name"] for queue in body["queues"]}
        | {step["queue"]["name"] for step in body["timeline"] if step["do"] == "create_queue"},
        "user": {user["name"] for user in body.get("users", [])} | {"admin"},
        "cohort": {cohort["name"] for cohort in scenario.cohorts()},
        "pool": {node.get("pool", "p1") for node in body["cluster"]["nodes"]},
        "level": {"host", *body["cluster"].get("levels", [])},
    }
    # A group may be sent to a queue that never was: that is what QueueMissing is about.
    for what, name in _mentioned(body):
        if what in known and name not in known[what] and what != "queue":
            raise ScenarioError(f"{scenario.path.name}: no {what} is called {name}")


def _mentioned(body: Map) -> list[tuple[str, str]]:
    found = [("cohort", cohort["parent"]) for cohort in body.get("cohorts", []) if "parent" in cohort]
    found += [("pool", pool) for queue in body["queues"] for pool in queue.get("pools", [])]
    for step in body["timeline"]:
        found += [("level", role["slice"]["level"]) for role in step.get("roles", []) if "slice" in role]
        found += [("group", name) for name in step_groups(step)]
        found += [(what, step[what]) for what in ("node", "pool") if isinstance(step.get(what), str)]
        found += [("user", step[key]) for key in ("by", "body_user") if key in step]
        found += [("level", name) for name in step.get("topology", {}).values()]
        found += [("group", entry["group"]) for entry in step.get("after", [])]
    for block in body["right"]:
        for key in ("admitted", "pending", "status"):
            found += [("group", name) for name in block.get(key, {})]
        for entry in [*block.get("counters", []), *block.get("checks", [])]:
            found += _mentioned_by(entry)
    return found


def _mentioned_by(entry: Map) -> list[tuple[str, str]]:
    keys = dict.fromkeys(("group", "holder", "stopped", "started", "victim", "claimant"), "group") | {
        "node": "node"
    }
    found = [(what, entry[key]) for key, what in keys.items() if isinstance(entry.get(key), str)]
    groups = entry.get("groups")
    found += [("group", name) for name in ([groups] if isinstance(groups, str) else groups or [])]
    if "nodes" in entry:
        found += [("node", name) for name in entry["nodes"]]
    if "level" in entry:
        found.append(("level", entry["level"]))
    return found
