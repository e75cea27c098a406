"""What a submission has to pass besides its own rules: its queue, and places that could hold it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlalchemy import Connection

from service.admission.world import Configuration
from service.domain.errors import FieldError, InvalidRequest
from service.domain.group import GroupSpec
from service.domain.group_rules import broken_placement_rules, broken_rules
from service.domain.principal import Principal
from service.store.queue_access import OpenQueue, find_queues

#: Enough to see what is wrong with a batch of thousands.
MOST_ERRORS = 100


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


def check_places(specs: Sequence[GroupSpec], configuration: Configuration, *, is_batch: bool) -> None:
    """Raise InvalidRequest for a topology level that no pool has."""
    levels = {level for pool in configuration.pools.values() for level in pool.levels}
    errors = _each(specs, lambda spec: broken_placement_rules(spec, levels), is_batch=is_batch)
    if errors:
        raise InvalidRequest(errors[0].message, errors=errors)


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
