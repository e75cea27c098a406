"""The client knows exactly the fields that the API answers, so that `--json` leaves nothing out."""

from __future__ import annotations

from types import NoneType
from typing import Any, get_args

import msgspec
import pytest

from service.api.schemas import (
    cohort,
    event,
    explanation,
    group_answer,
    group_submit,
    inventory,
    key,
    member,
    node,
    policy,
    preemption,
    priority_class,
    queue,
    usage,
)
from service.client import (
    cohorts,
    events,
    explanations,
    groups,
    keys,
    members,
    nodes,
    preemptions,
    priority_classes,
    queues,
)
from service.client import inventory as inventories
from service.client import (
    policy as policies,
)
from service.client import (
    usage as usages,
)

PAIRS = [
    (groups.Group, group_answer.GroupAnswer),
    (groups.GroupBrief, group_answer.GroupBriefAnswer),
    (groups.GroupPage, group_answer.GroupPageAnswer),
    (groups.Batch, group_submit.BatchAnswer),
    (members.MemberPage, member.MemberPageAnswer),
    (events.EventPage, event.EventPageAnswer),
    (explanations.Position, explanation.PositionAnswer),
    (explanations.Reasons, explanation.ReasonsAnswer),
    (queues.Queue, queue.QueueAnswer),
    (cohorts.Cohort, cohort.CohortAnswer),
    (priority_classes.PriorityClass, priority_class.PriorityClassAnswer),
    (policies.PolicyChanges, policy.PolicyChanges),
    (preemptions.Preemption, preemption.PreemptionAnswer),
    (usages.UsagePage, usage.UsageAnswer),
    (nodes.Node, node.NodeAnswer),
    (keys.NewKey, key.NewKeyAnswer),
    (inventories.Inventory, inventory.InventoryAnswer),
    (inventories.Audit, inventory.AuditAnswer),
]


@pytest.mark.parametrize(("known", "answered"), PAIRS, ids=lambda kind: kind.__name__)
def test_the_client_knows_every_field(known: type[msgspec.Struct], answered: type[msgspec.Struct]) -> None:
    assert shape_of(known) == shape_of(answered)


def shape_of(kind: Any) -> Any:
    """Fields by name, down to the leaves; of a leaf only whether it may be null."""
    arguments = get_args(kind)
    if NoneType in arguments:
        return {"null": shape_of(next(each for each in arguments if each is not NoneType))}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return {field.name: shape_of(field.type) for field in msgspec.structs.fields(kind)}
    if arguments and getattr(kind, "__origin__", None) in {list, tuple}:
        return [shape_of(arguments[0])]
    return "leaf"
