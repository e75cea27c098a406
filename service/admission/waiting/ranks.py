"""What comes before age in the order of a queue: priority, and the time limit where the queue says so."""

from __future__ import annotations

from collections.abc import Mapping

from service.admission.world import PendingUnit, Queue
from service.domain.queue import OrderBy

#: Time limits are shorter: as long counts a group that has none.
ENDLESS = (1 << 32) - 1
_PRIORITY = 1 << 32


def rank_of(row: PendingUnit, *, is_by_length: bool) -> int:
    """One number, the lowest first; of equal ranks the older row is first. `is_by_length`: the queue has the
    shortest first."""
    if not is_by_length:
        return -row.priority * _PRIORITY
    limit = row.time_limit_seconds
    return -row.priority * _PRIORITY + (ENDLESS if limit is None else min(limit, ENDLESS))


def priority_of(rank: int) -> int:
    return -(rank // _PRIORITY)


def ordered_by_length(queues: Mapping[int, Queue]) -> frozenset[int]:
    """Queues that have the shortest first."""
    return frozenset(each.id for each in queues.values() if each.policy.order_by is OrderBy.SHORTEST)
