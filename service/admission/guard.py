"""Whose guard has run out: heads of classes that have waited so long that places are kept for them whatever
their date."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from service.admission.eligibility import is_eligible, is_open
from service.admission.resident import World
from service.admission.world import PendingUnit, Queue
from service.domain.queue import Order

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: So many are served in one cycle, those whose guard ran out first.
_SERVED = 64


def waits_since(row: PendingUnit) -> datetime:
    """Since when it could have been admitted."""
    return row.waiting_since or row.submitted_at


def find_expired(world: World, now: datetime, guard_seconds: float) -> list[PendingUnit]:
    """In the order in which their guards ran out."""
    until = now - timedelta(seconds=guard_seconds)
    rows = [row for row in _heads(world, until) if waits_since(row) <= until and is_eligible(row, now)]
    return sorted(rows, key=lambda row: (waits_since(row), row.id))[:_SERVED]


def _heads(world: World, until: datetime) -> Iterator[PendingUnit]:
    """Of open queues, those that were submitted before."""
    latest = (until - _EPOCH) // timedelta(microseconds=1)
    for queue_id, keys in world.backlog.heads_in.items():
        queue = world.configuration.queues.get(queue_id)
        if queue is None or not is_open(queue):
            continue
        yield from (
            world.pending[key[4]] for key in keys if key[1] <= latest and _may_be_next(world, queue, key[4])
        )


def _may_be_next(world: World, queue: Queue, unit_id: int) -> bool:
    """In a strict queue only the first may."""
    return queue.order is not Order.STRICT or world.backlog.lines[queue.id].keys[0][4] == unit_id
