"""What a submission has to pass besides its own rules: its queue, and places that could hold it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from service.admission.nodes.feasibility import Shortfall
from service.domain.errors import FieldError, InfeasibleRequest, InvalidRequest
from service.domain.group import GroupSpec
from service.domain.group_rules import broken_placement_rules, broken_rules
from service.domain.principal import KeyRole
from service.domain.queue import QueuePolicy
from service.domain.shape import Shape
from service.domain.submit_rules import broken_submit_rules, settled
from service.operations.configuration import Cluster

T = TypeVar("T")

#: Enough to see what is wrong with a batch of thousands.
MOST_ERRORS = 100

#: Where the fields of a shortfall stand in a role.
_PARTS = {
    "gpus": "requests",
    "cpus": "requests",
    "memory_gib": "requests",
    "models": "gpu",
    "min_memory_gib": "gpu",
}
_UNITS = {
    "gpus": "GPUs",
    "cpus": "CPUs",
    "memory_gib": "GiB of memory",
    "min_memory_gib": "GiB of GPU memory",
}


def find_broken(specs: Sequence[GroupSpec], *, is_batch: bool) -> InvalidRequest | None:
    """The rules of its own that a group breaks."""
    if not any(broken_rules(spec) for spec in _unlike(specs)):
        return None
    return _refusal(_each(specs, broken_rules, is_batch=is_batch))


def find_closed(
    specs: Sequence[GroupSpec], *, open_queues: Collection[str], is_batch: bool
) -> InvalidRequest | None:
    """Queues that are not there, or take only groups of another tenant: both look alike."""

    def unknown(spec: GroupSpec) -> Iterator[FieldError]:
        if spec.queue not in open_queues:
            yield FieldError("queue", f"There is no queue {spec.queue!r} that this key may submit to.")

    return _refusal(_each(specs, unknown, is_batch=is_batch))


def find_late(specs: Sequence[GroupSpec], *, is_batch: bool) -> InvalidRequest | None:
    """Entries of `after` that name a group of the batch which is not there before their own."""

    def late(at: tuple[int, GroupSpec]) -> Iterator[FieldError]:
        index, spec = at
        for position, each in enumerate(spec.after):
            if each.batch_index is not None and not (is_batch and each.batch_index < index):
                words = "must be the index of an earlier group of the batch" if is_batch else "is for batches"
                yield FieldError(f"after[{position}].batch_index", words)

    if not any(spec.after for spec in specs):
        return None
    return _refusal(_each(list(enumerate(specs)), late, is_batch=is_batch))


def find_unknown(
    specs: Sequence[GroupSpec], *, visible: Collection[UUID], is_batch: bool
) -> InvalidRequest | None:
    """Groups in `after` that are not there, or that this key may not see: both look alike."""

    def unknown(spec: GroupSpec) -> Iterator[FieldError]:
        for position, each in enumerate(spec.after):
            if each.group is not None and each.group not in visible:
                yield FieldError(f"after[{position}].group", f"There is no group {each.group}.")

    if not any(spec.after for spec in specs):
        return None
    return _refusal(_each(specs, unknown, is_batch=is_batch))


def settle_all(
    specs: Sequence[GroupSpec],
    policies: Mapping[str, QueuePolicy],
    *,
    priority_classes: Mapping[str, int],
) -> list[GroupSpec]:
    """Each with what its queue adds. Those that are alike stay so."""
    found: list[GroupSpec] = []
    for index, spec in enumerate(specs):
        if index and spec.is_like(specs[index - 1]):
            like = found[-1]
            found.append(spec if like is specs[index - 1] else like.named(spec.name))
        else:
            found.append(settled(spec, policies[spec.queue], priority_classes=priority_classes))
    return found


def find_disallowed(
    specs: Sequence[GroupSpec],
    policies: Mapping[str, QueuePolicy],
    *,
    role: KeyRole,
    priority_classes: Collection[str],
    is_batch: bool,
) -> InvalidRequest | None:
    """What the queue of a settled group does not take from this role of user."""

    def check(spec: GroupSpec) -> Sequence[FieldError]:
        return broken_submit_rules(spec, policies[spec.queue], role=role, priority_classes=priority_classes)

    if not any(check(spec) for spec in _unlike(specs)):
        return None
    return _refusal(_each(specs, check, is_batch=is_batch))


def find_misplaced(
    specs: Sequence[GroupSpec], shapes: Sequence[Shape], *, cluster: Cluster, is_batch: bool
) -> InvalidRequest | None:
    """A topology level that no pool has, else an InfeasibleRequest for a member that no registered node
    could ever hold, with the nearest that could be met. `shapes` are those of `specs`."""
    levels = {queue: cluster.levels_for(queue) for queue in {spec.queue for spec in specs}}
    refusal = _refusal(
        _each(specs, lambda spec: broken_placement_rules(spec, levels[spec.queue]), is_batch=is_batch)
    )
    if refusal is not None:
        return refusal
    allowed = [cluster.on_terms(shape, spec.queue) for spec, shape in zip(specs, shapes, strict=True)]
    short = {shape: found for shape in set(allowed) if (found := cluster.shortfalls(shape))}
    if not short:
        return None
    asked = [(spec, short.get(shape, ())) for spec, shape in zip(specs, allowed, strict=True)]
    errors = _each(asked, lambda pair: _infeasible(*pair), is_batch=is_batch)
    return InfeasibleRequest(errors[0].message, errors=errors) if errors else None


def _refusal(errors: Sequence[FieldError]) -> InvalidRequest | None:
    return InvalidRequest(errors[0].message, errors=errors) if errors else None


def _infeasible(spec: GroupSpec, shortfalls: Sequence[Shortfall]) -> Iterator[FieldError]:
    if spec.allows_infeasible:
        return
    positions = {role.name: position for position, role in enumerate(spec.roles)}
    for short in shortfalls:
        if short.field == "pools":
            yield FieldError("queue", _pools_text(spec.queue, short))
            continue
        part = _PARTS.get(short.field)
        path = f"roles[{positions[short.role]}].{f'{part}.' if part else ''}{short.field}"
        yield FieldError(path, _shortfall_text(short))


def _shortfall_text(short: Shortfall) -> str:
    if isinstance(short.asked, tuple) or isinstance(short.largest, tuple):
        there = _listed(short.largest) or "nothing like it"
        return f"no node that its queue may use has {_listed(short.asked)}; there is: {there}"
    unit = _UNITS[short.field]
    where = "on one GPU" if short.field == "min_memory_gib" else "on one node"
    return (
        f"a member asks for {short.asked:g} {unit} {where}, and no node could ever hold that; "
        f"the most that could be met is {short.largest:g}"
    )


def _pools_text(queue: str, short: Shortfall) -> str:
    allowed = f"only the pools {_listed(short.asked)}" if short.asked else "no pool"
    return (
        f"queue {queue} may use {allowed}, and no node is registered there; there are nodes in:"
        f" {_listed(short.largest)}"
    )


def _listed(values: float | tuple[str, ...]) -> str:
    return ", ".join(values) if isinstance(values, tuple) else f"{values:g}"


def _unlike(specs: Sequence[GroupSpec]) -> Iterator[GroupSpec]:
    """Those that are not like the one before."""
    return (spec for index, spec in enumerate(specs) if not (index and spec.is_like(specs[index - 1])))


def _each(
    asked: Sequence[T],
    check: Callable[[T], Sequence[FieldError] | Iterator[FieldError]],
    *,
    is_batch: bool,
) -> list[FieldError]:
    """What `check` finds in each group, with the index of the group in a batch."""
    errors: list[FieldError] = []
    for index, each in enumerate(asked):
        for error in check(each):
            path = f"groups[{index}].{error.field}" if is_batch else error.field
            errors.append(FieldError(path, error.message))
        if len(errors) >= MOST_ERRORS:
            break
    return errors[:MOST_ERRORS]
