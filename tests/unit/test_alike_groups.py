"""Groups of a batch that differ only in their names: what is found out of one holds for the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from service.api.schemas.group import BatchRequest
from service.api.schemas.group_reading import read_group, read_groups
from service.domain.dependency import Dependency
from service.domain.errors import InvalidRequest
from service.domain.group import Elastic, GroupSpec, OnMemberLoss, Recovery
from service.domain.shape import Scheduling, Sizing
from service.operations.submission import shapes_of
from service.operations.submit_checks import find_broken
from service.store.shapes import shape_digest
from service.store.specs import spec_bodies, spec_body

GROUP: Mapping[str, Any] = {
    "name": "a",
    "members": 2,
    "gpus": 1,
    "command": ["train", 'a "quoted" word'],
    "env": {"LR": "1", "API_TOKEN": "hidden"},
    "secrets": {"KEY": "s"},
    "labels": {"team": "x"},
}


def batch(*groups: Mapping[str, Any]) -> BatchRequest:
    return msgspec.convert({"groups": groups}, BatchRequest)


def specs_of(*groups: Mapping[str, Any]) -> list[GroupSpec]:
    return read_groups(batch(*groups).groups)


def test_only_neighbours_that_differ_in_nothing_but_their_names_are_alike() -> None:
    first, second, third = specs_of(GROUP, {**GROUP, "name": "b"}, {**GROUP, "name": "c", "gpus": 2})
    assert second.is_like(first)
    assert not third.is_like(second)


def test_what_is_read_is_what_each_alone_says() -> None:
    asked = batch(GROUP, {**GROUP, "name": "b"}, {**GROUP, "gpus": 2}, {**GROUP, "name": 'z "ü" \\'[:5]})
    assert read_groups(asked.groups) == [read_group(group) for group in asked.groups]


#: Another value for each field but the name.
OTHERS: Mapping[str, Any] = {
    "queue": "other",
    "priority": 7,
    "priority_class": "high",
    "scheduling": Scheduling.INDEPENDENT,
    "topology_required": "rack",
    "topology_preferred": "rack",
    "elastic": Elastic(resize=Sizing.AT_START),
    "time_limit_seconds": 5,
    "start_timeout_seconds": 5,
    "grace_seconds": 5,
    "recovery": Recovery(on_member_loss=OnMemberLoss.FAIL),
    "is_preemptible": False,
    "labels": {},
    "after": (Dependency(batch_index=0),),
    "not_before_at": datetime(2026, 1, 1, tzinfo=UTC),
    "allows_infeasible": True,
}


@pytest.mark.parametrize("field", [each.name for each in fields(GroupSpec) if each.name != "name"])
def test_every_field_but_the_name_counts(field: str) -> None:
    (spec,) = specs_of(GROUP)
    other: Any = OTHERS[field] if field != "roles" else spec.roles[:0]
    assert not replace(spec, **{field: other}).is_like(spec)
    assert spec.named("b").is_like(spec)


def test_shapes_and_bodies_are_those_of_each_alone() -> None:
    specs = specs_of(
        GROUP, {**GROUP, "name": "b"}, {**GROUP, "gpus": 2}, {**GROUP, "gpus": 2, "name": "d"}, GROUP
    )
    assert shapes_of(specs) == [(spec.shape(), shape_digest(spec.shape())) for spec in specs]
    assert list(spec_bodies(specs)) == [spec_body(spec) for spec in specs]


def test_all_that_break_a_rule_are_named_also_when_they_are_alike() -> None:
    wrong = {**GROUP, "env": {"RANK": "1"}}
    specs = specs_of(GROUP, wrong, {**wrong, "name": "b"}, GROUP)
    refusal = find_broken(specs, is_batch=True)
    assert isinstance(refusal, InvalidRequest)
    assert {error.field.partition(".")[0] for error in refusal.errors} == {"groups[1]", "groups[2]"}
