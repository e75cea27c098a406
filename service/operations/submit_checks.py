"""What a submission has to pass besides its own rules: its queue, and places that could hold it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlalchemy import Connection

from service.admission.feasibility import Shortfall
from service.domain.errors import FieldError, InfeasibleRequest, InvalidRequest
from service.domain.group import GroupSpec
from service.domain.group_rules import broken_placement_rules, broken_rules
from service.domain.principal import Principal
from service.operations.configuration import Cluster
from service.store.queue_access import OpenQueue, find_queues

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


def refuse_broken(specs: Sequence[GroupSpec], *, is_batch: bool) -> None:
    """Raise InvalidRequest if a group breaks a rule of its own."""
    errors = _each(specs, broken_rules, is_batch=is_batch)
    if errors:
        raise InvalidRequest(errors[0].message, errors=errors)


def open_queues(
    conn: Connection, specs: Sequence[GroupSpec], *, principal: Principal, is_batch: bool
) -> list[int]:
    """Ids of the queues, in the order of `specs`. Raises InvalidRequest for a queue that is not
    there, or takes only groups of another tenant: both look alike."""
    queues = {
        name: queue
        for name, queue in find_queues(conn, {spec.queue for spec in specs}).items()
        if _may_submit(principal, queue)
    }

    def unknown(spec: GroupSpec) -> Iterator[FieldError]:
        if spec.queue not in queues:
            yield FieldError("queue", f"There is no queue {spec.queue!r} that this key may submit to.")

    errors = _each(specs, unknown, is_batch=is_batch)
    if errors:
        raise InvalidRequest(errors[0].message, errors=errors)
    return [queues[spec.queue].id for spec in specs]


def check_places(specs: Sequence[GroupSpec], cluster: Cluster, *, is_batch: bool) -> None:
    """Raise InvalidRequest for a topology level that no pool has, and InfeasibleRequest for a member
    that no registered node could ever hold, with the nearest that could be met."""
    errors = _each(specs, lambda spec: broken_placement_rules(spec, cluster.levels), is_batch=is_batch)
    if errors:
        raise InvalidRequest(errors[0].message, errors=errors)
    errors = _each(specs, lambda spec: _infeasible(spec, cluster), is_batch=is_batch)
    if errors:
        raise InfeasibleRequest(errors[0].message, errors=errors)


def _infeasible(spec: GroupSpec, cluster: Cluster) -> Iterator[FieldError]:
    if spec.allows_infeasible:
        return
    positions = {role.name: position for position, role in enumerate(spec.roles)}
    for short in cluster.shortfalls(spec.shape()):
        part = _PARTS.get(short.field)
        path = f"roles[{positions[short.role]}].{f'{part}.' if part else ''}{short.field}"
        yield FieldError(path, _shortfall_text(short))


def _shortfall_text(short: Shortfall) -> str:
    if isinstance(short.asked, tuple) or isinstance(short.largest, tuple):
        return f"no node has {_listed(short.asked)}; there is: {_listed(short.largest) or 'nothing like it'}"
    unit = _UNITS[short.field]
    where = "on one GPU" if short.field == "min_memory_gib" else "on one node"
    return (
        f"a member asks for {short.asked:g} {unit} {where}, and no node could ever hold that; "
        f"the most that could be met is {short.largest:g}"
    )


def _listed(values: float | tuple[str, ...]) -> str:
    return ", ".join(values) if isinstance(values, tuple) else f"{values:g}"


def _may_submit(principal: Principal, queue: OpenQueue) -> bool:
    return queue.tenant is None or principal.is_operator or queue.tenant == principal.tenant


def _each(
    specs: Sequence[GroupSpec],
    check: Callable[[GroupSpec], Sequence[FieldError] | Iterator[FieldError]],
    *,
    is_batch: bool,
) -> list[FieldError]:
    """What `check` finds in each group, with the index of the group in a batch."""
    errors: list[FieldError] = []
    for index, spec in enumerate(specs):
        for error in check(spec):
            path = f"groups[{index}].{error.field}" if is_batch else error.field
            errors.append(FieldError(path, error.message))
        if len(errors) >= MOST_ERRORS:
            break
    return errors[:MOST_ERRORS]
