"""All queues, cohorts and priority classes of a site, and how it decides, as one request says them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

from msgspec import Meta, field

from service.domain.errors import FieldError, InvalidRequest
from service.domain.scheduling import SchedulingSettings
from service.domain.tree import SCHEDULING, Named, Tree, Wanted
from service.wire.cohort import CohortRequest, new_cohort
from service.wire.group_values import ClassName, Priority
from service.wire.queue import QueueRequest
from service.wire.queue_reading import new_settings
from service.wire.scheduling import SchedulingRequest, scheduling_settings
from service.wire.values import RequestStruct


class PriorityClassEntry(RequestStruct, frozen=True, kw_only=True):
    name: ClassName
    value: Priority


class PolicyRequest(RequestStruct, frozen=True, kw_only=True):
    """Queues and cohorts as they are to be: what is not said of one has its default, as in a POST. Without
    `scheduling` that of the cluster stays."""

    scheduling: SchedulingRequest | None = None
    priority_classes: Annotated[list[PriorityClassEntry], Meta(max_length=1_000)] = field(
        default_factory=list
    )
    cohorts: Annotated[list[CohortRequest], Meta(max_length=10_000)] = field(default_factory=list)
    queues: Annotated[list[QueueRequest], Meta(max_length=10_000)] = field(default_factory=list)


def wanted_of(request: PolicyRequest, *, is_all: bool) -> Wanted:
    """Raises InvalidRequest that names each field by its path in the request."""
    errors: list[FieldError] = []
    cohorts = dict(_read(request.cohorts, "cohorts", new_cohort, errors))
    queues = dict(_read(request.queues, "queues", new_settings, errors))
    classes = dict(_read(request.priority_classes, "priority_classes", lambda each: each.value, errors))
    scheduling = _scheduling(request.scheduling, errors)
    if errors:
        raise InvalidRequest.of(errors)
    lists: Sequence[tuple[str, str, Sequence[Any]]] = (
        ("cohort", "cohorts", request.cohorts),
        ("queue", "queues", request.queues),
    )
    return Wanted(
        tree=Tree(cohorts=cohorts, queues=queues, priority_classes=classes, scheduling=scheduling),
        places={SCHEDULING: "scheduling"}
        | {
            Named(kind, each.name): f"{part}[{index}]"
            for kind, part, entries in lists
            for index, each in enumerate(entries)
        },
        is_all=is_all,
    )


def _scheduling(said: SchedulingRequest | None, errors: list[FieldError]) -> SchedulingSettings | None:
    try:
        return None if said is None else scheduling_settings(said)
    except InvalidRequest as error:
        errors += [FieldError(f"scheduling.{wrong.field}", wrong.message) for wrong in error.errors]
    return None


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
