"""All queues, cohorts and priority classes of a site on the wire, as one file says them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from service.domain.tree import SCHEDULING, CohortSettings, Named, QueueSettings, Tree, Wanted
from service.operations.apply_policy import Applied
from service.wire.cohort import CohortPatch, cohort_fields
from service.wire.policy import PriorityClassEntry
from service.wire.queue import QueuePatch, queue_fields
from service.wire.scheduling import SchedulingRequest, scheduling_fields
from service.wire.values import AnswerStruct, Name


class CohortEntry(CohortPatch, frozen=True, kw_only=True):
    """What is not its default."""

    name: Name


class QueueEntry(QueuePatch, frozen=True, kw_only=True):
    """What is not its default."""

    name: Name


class PolicyAnswer(AnswerStruct, frozen=True, kw_only=True):
    """All that there is, each kind by name: a body for `PUT /v1/policy`. `scheduling`: what is
    said of it; the worker's variables say the rest."""

    scheduling: SchedulingRequest | UnsetType = UNSET
    priority_classes: list[PriorityClassEntry]
    cohorts: list[CohortEntry]
    queues: list[QueueEntry]


class FieldChange(AnswerStruct, frozen=True, kw_only=True):
    """A field that was at its default before, or is now, is null there."""

    before: Any
    after: Any


class PolicyChange(AnswerStruct, frozen=True, kw_only=True):
    kind: Literal["scheduling", "priority_class", "cohort", "queue"]
    name: str
    change: Literal["created", "changed", "deleted"]
    fields: dict[str, FieldChange]


class PolicyChanges(AnswerStruct, frozen=True, kw_only=True):
    """What an apply changed, or would change. `unchanged`: how many are as the request says them."""

    is_dry_run: bool
    changes: list[PolicyChange]
    unchanged: int


def policy_answer(tree: Tree) -> PolicyAnswer:
    said = tree.scheduling
    return PolicyAnswer(
        scheduling=UNSET if said is None else SchedulingRequest(**scheduling_fields(said)),
        priority_classes=[
            PriorityClassEntry(name=name, value=value)
            for name, value in sorted(tree.priority_classes.items())
        ],
        cohorts=[_cohort_entry(cohort) for _, cohort in sorted(tree.cohorts.items())],
        queues=[_queue_entry(queue) for _, queue in sorted(tree.queues.items())],
    )


def changes_answer(applied: Applied, wanted: Wanted, *, is_dry_run: bool) -> PolicyChanges:
    before, after = _entries(applied.before), _entries(applied.after)
    changes = [
        _change(what, before.get(what), after.get(what))
        for what in sorted({*before, *after}, key=lambda what: (_KINDS.index(what.kind), what.name))
        if before.get(what) != after.get(what)
    ]
    changed = {Named(each.kind, each.name) for each in changes}
    return PolicyChanges(
        is_dry_run=is_dry_run,
        changes=changes,
        unchanged=sum(what not in changed for what in _entries(wanted.tree)),
    )


_KINDS = ("scheduling", "priority_class", "cohort", "queue")


def _cohort_entry(cohort: CohortSettings) -> CohortEntry:
    return CohortEntry(**_said(cohort_fields(cohort), _COHORT))


def _queue_entry(queue: QueueSettings) -> QueueEntry:
    return QueueEntry(**_said(queue_fields(queue), _QUEUE))


def _said(fields: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    return {name: UNSET if value == defaults[name] else value for name, value in fields.items()}


#: A thing without a name has nothing but defaults.
_COHORT, _QUEUE = cohort_fields(CohortSettings(name="")), queue_fields(QueueSettings(name=""))


def _entries(tree: Tree) -> dict[Named, dict[str, Any]]:
    """Each thing as a file says it."""
    answer = policy_answer(tree)
    lists: Sequence[tuple[str, Sequence[Any]]] = (
        ("priority_class", answer.priority_classes),
        ("cohort", answer.cohorts),
        ("queue", answer.queues),
    )
    found = {Named(kind, each.name): msgspec.to_builtins(each) for kind, entries in lists for each in entries}
    if answer.scheduling is not UNSET:
        found[SCHEDULING] = msgspec.to_builtins(answer.scheduling)
    return found


def _change(what: Named, before: dict[str, Any] | None, after: dict[str, Any] | None) -> PolicyChange:
    old, new = before or {}, after or {}
    return PolicyChange(
        kind=what.kind,  # type: ignore[arg-type]
        name=what.name,
        change="created" if before is None else "deleted" if after is None else "changed",
        fields={
            name: FieldChange(before=old.get(name), after=new.get(name))
            for name in sorted({*old, *new} - {"name"})
            if old.get(name) != new.get(name)
        },
    )
