"""What a queue's quota says to those whom it stops: codes, whose quota, and the numbers."""

from __future__ import annotations

from collections.abc import Iterable

from service.admission.plan import Blocker
from service.admission.query import ShapeQuery
from service.admission.quota import Exceeded, QuotaBook
from service.admission.world import Configuration, Queue
from service.domain.reasons import Code
from service.domain.resources import CPUS, MEMORY


def quota_scope(queue: Queue, resource: str) -> dict[str, str]:
    """Whose quota, and of what; a model goes by the name of a flavor of GPUs."""
    if resource in (CPUS, MEMORY):
        return {"queue": queue.name, "resource": resource}
    return {"queue": queue.name, "resource": "gpus", "flavor": resource}


def quota_blocker(
    configuration: Configuration, queue: Queue, query: ShapeQuery, exceeded: Exceeded
) -> Blocker:
    """For QuotaExceeded `have` is what the queue holds, for the codes of cohorts what it may still take."""
    resource, code, cohort_id = exceeded
    scope = quota_scope(queue, resource)
    if code is not Code.QUOTA_EXCEEDED:
        by = queue.cohort_id if cohort_id is None else cohort_id
        scope["cohort"] = configuration.cohorts[by].name if by is not None else ""
        scope["bound"] = "queue" if cohort_id is None else "cohort"
    return Blocker(
        code=code,
        need=query.most[resource],
        have_key=_have_key(queue.id, resource, code),
        limit_key=_limit_key(queue.id, resource),
        scope=scope,
    )


def quota_numbers(book: QuotaBook, queue_id: int, exceeded: Iterable[Exceeded]) -> dict[str, int]:
    """The shared numbers that these blockers name."""
    numbers: dict[str, int] = {}
    for resource, code, _ in exceeded:
        room = book.room(queue_id, resource)
        if room is not None:
            is_own = code is Code.QUOTA_EXCEEDED
            have = book.tree.held(queue_id, resource) if is_own else room.amount
            numbers[_have_key(queue_id, resource, code)] = have
            numbers[_limit_key(queue_id, resource)] = room.limit
    return numbers


def ceiling_key(queue_id: int, resource: str) -> str:
    """Name of the shared number of how much a queue may ever hold."""
    return f"ceiling:{queue_id}:{resource}"


def _have_key(queue_id: int, resource: str, code: Code) -> str:
    return f"{'used' if code is Code.QUOTA_EXCEEDED else 'left'}:{queue_id}:{resource}"


def _limit_key(queue_id: int, resource: str) -> str:
    return f"most:{queue_id}:{resource}"
