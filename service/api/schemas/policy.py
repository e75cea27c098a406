"""All queues, cohorts and priority classes of a site on the wire, as one file says them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, field

from service.api.schemas.cohort import CohortPatch, CohortRequest, cohort_fields, new_cohort
from service.api.schemas.group import ClassName, Priority
from service.api.schemas.queue import QueuePatch, QueueRequest, queue_fields
from service.api.schemas.queue_reading import new_settings
from service.api.wire import AnswerStruct, Name, RequestStruct
from service.domain.errors import FieldError, InvalidRequest
from service.domain.tree import CohortSettings, Named, QueueSettings, Tree
from service.operations.apply_policy import Applied, Wanted


class PriorityClassEntry(RequestStruct, frozen=True, kw_only=True):
    name: ClassName
    value: Priority


class PolicyRequest(RequestStruct, frozen=True, kw_only=True):
    """Queues and cohorts as they are to be: what is not said of one has its default, as in a POST."""

    priority_classes: Annotated[list[PriorityClassEntry], Meta(max_length=1_000)] = field(
        default_factory=list
    )
    cohorts: Annotated[list[CohortRequest], Meta(max_length=10_000)] = field(default_factory=list)
    queues: Annotated[list[QueueRequest], Meta(max_length=10_000)] = field(default_factory=list)


class CohortEntry(CohortPatch, frozen=True, kw_only=True):
    """What is not its default."""

    name: Name


class QueueEntry(QueuePatch, frozen=True, kw_only=True):
    """What is not its default."""

    name: Name


class PolicyAnswer(AnswerStruct, frozen=True, kw_only=True):
    """All that there is, each kind by name: a body for `PUT /v1/policy`."""

    priority_classes: list[PriorityClassEntry]
    cohorts: list[CohortEntry]
    queues: list[QueueEntry]


class FieldChange(AnswerStruct, frozen=True, kw_only=True):
    """A field that was at its default before, or is now, is null there."""

    before: Any
    after: Any


class PolicyChange(AnswerStruct, frozen=True, kw_only=True):
    kind: Literal["priority_class", "cohort", "queue"]
    name: str
    change: Literal["created", "changed", "deleted"]
    fields: dict[str, FieldChange]


class PolicyChanges(AnswerStruct, frozen=True, kw_only=True):
    """What an apply changed, or would change. `unchanged`: how many are as the request says them."""

    is_dry_run: bool
    changes: list[PolicyChange]
    unchanged: int


def policy_answer(tree: Tree) -> PolicyAnswer:
    return PolicyAnswer(
        priority_classes=[
            PriorityClassEntry(name=name, value=value)
            for name, value in sorted(tree.priority_classes.items())
        ],
        cohorts=[_cohort_entry(cohort) for _, cohort in sorted(tree.cohorts.items())],
        queues=[_queue_entry(queue) for _, queue in sorted(tree.queues.items())],
    )


def wanted_of(request: PolicyRequest, *, is_all: bool) -> Wanted:
    """Raises InvalidRequest that names each field by its path in the request."""
    errors: list[FieldError] = []
    cohorts = dict(_read(request.cohorts, "cohorts", new_cohort, errors))
    queues = dict(_read(request.queues, "queues", new_settings, errors))
    classes = dict(_read(request.priority_classes, "priority_classes", lambda each: each.value, errors))
    if errors:
        raise InvalidRequest.of(errors)
    lists: Sequence[tuple[str, str, Sequence[Any]]] = (
        ("cohort", "cohorts", request.cohorts),
        ("queue", "queues", request.queues),
    )
    return Wanted(
        tree=Tree(cohorts=cohorts, queues=queues, priority_classes=classes),
        places={
            Named(kind, each.name): f"{part}[{index}]"
            for kind, part, entries in lists
            for index, each in enumerate(entries)
        },
        is_all=is_all,
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


_KINDS = ("priority_class", "cohort", "queue")


def _read(
    entries: Iterable[Any], part: str, read: Any, errors: list[FieldError]
) -> Iterator[tuple[str, Any]]:
    """Each entry by its name. What is wrong with one is added to `errors`."""
    seen: dict[str, int] = {}
    for index, each in enumerate(entries):
        if each.name in seen:
            message = f"{each.name} is there already, as {part}[{seen[each.name]}]."
            errors.append(FieldError(f"{part}[{index}].name", message))
            continue
        seen[each.name] = index
        try:
            yield each.name, read(each)
        except InvalidRequest as error:
            errors += [FieldError(f"{part}[{index}].{wrong.field}", wrong.message) for wrong in error.errors]


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
    return {Named(kind, each.name): msgspec.to_builtins(each) for kind, entries in lists for each in entries}


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
