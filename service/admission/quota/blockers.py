"""What a queue's quota says to those whom it stops: codes, whose quota, and the numbers."""

from __future__ import annotations

from collections.abc import Iterable

from service.admission.nodes.query import ShapeQuery
from service.admission.plan import Blocker
from service.admission.quota.book import Exceeded, QuotaBook
from service.admission.quota.tree import QuotaTree
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
    resource, code, cohort_id, of = exceeded
    scope = quota_scope(queue, resource)
    if code is not Code.QUOTA_EXCEEDED:
        by = queue.cohort_id if cohort_id is None else cohort_id
        scope["cohort"] = configuration.cohorts[by].name if by is not None else ""
        scope["bound"] = "queue" if cohort_id is None else "cohort"
    return Blocker(
        code=code,
        need=query.most[resource],
        have_key=_have_key(queue.id, exceeded) if of is None else left_key(of, resource),
        limit_key=_limit_key(queue.id, resource),
        scope=scope,
    )


def quota_numbers(book: QuotaBook, queue_id: int, exceeded: Iterable[Exceeded]) -> dict[str, int]:
    """The numbers that these blockers name, but for what members of a cohort have left together."""
    numbers: dict[str, int] = {}
    for each in exceeded:
        room = book.room(queue_id, each.resource)
        if room is not None:
            numbers[_limit_key(queue_id, each.resource)] = room.limit
            if each.of is None:
                is_own = each.code is Code.QUOTA_EXCEEDED
                have = book.tree.held(queue_id, each.resource) if is_own else room.amount
                numbers[_have_key(queue_id, each)] = have
    return numbers


def cohort_numbers(tree: QuotaTree, exceeded: Iterable[Exceeded]) -> dict[str, int]:
    """What members of cohorts have left together, where these blockers name it."""
    return {
        left_key(each.of, each.resource): max(0, tree.room_in(tree.cohorts[each.of], each.resource).amount)
        for each in exceeded
        if each.of is not None
    }


def ceiling_key(queue_id: int, resource: str) -> str:
    """Name of the shared number of how much a queue may ever hold."""
    return f"ceiling:{queue_id}:{resource}"


def left_key(cohort_id: int, resource: str) -> str:
    """Name of the number of what members of a cohort have left together."""
    return f"left:cohort:{cohort_id}:{resource}"


def _have_key(queue_id: int, exceeded: Exceeded) -> str:
    return f"{'used' if exceeded.code is Code.QUOTA_EXCEEDED else 'left'}:{queue_id}:{exceeded.resource}"


def _limit_key(queue_id: int, resource: str) -> str:
    return f"most:{queue_id}:{resource}"
