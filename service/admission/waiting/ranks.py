"""What comes before age in the order of a queue: priority, and what the queue orders by besides."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from service.admission.world import PendingUnit, Queue
from service.domain.queue import OrderBy

#: Time limits are shorter: as long counts a group that has none.
ENDLESS = (1 << 32) - 1
#: In a balanced queue a group is set back by so large a part of its time limit, and no more than so far. A
#: limit is rarely more than five times what is needed: who has it is hardly set back by more than it runs.
BALANCED_PART = 5
MOST_SECONDS = 30 * 86_400

#: Above all that seconds come to.
_PRIORITY = 1 << 40
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


def rank_of(row: PendingUnit, order_by: OrderBy) -> int:
    """One number, the lowest first; of equal ranks the older row is first."""
    return length_of(row, order_by) - row.priority * _PRIORITY


def length_of(row: PendingUnit, order_by: OrderBy) -> int:
    """What comes after priority and before age, in whole seconds."""
    if order_by is OrderBy.AGE:
        return 0
    limit = ENDLESS if row.time_limit_seconds is None else min(row.time_limit_seconds, ENDLESS)
    if order_by is OrderBy.SHORTEST:
        return limit
    return (row.submitted_at - _EPOCH) // _SECOND + min(limit // BALANCED_PART, MOST_SECONDS)


def priority_of(rank: int) -> int:
    return -(rank // _PRIORITY)


def orders_of(queues: Mapping[int, Queue]) -> dict[int, OrderBy]:
    """Of those queues that do not go by age alone."""
    return {
        each.id: each.policy.order_by for each in queues.values() if each.policy.order_by is not OrderBy.AGE
    }
