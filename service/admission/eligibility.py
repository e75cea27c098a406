"""Which waiting rows take part in a cycle. What is not eligible is listed at its place, is not
admitted and blocks nobody."""

from __future__ import annotations

from datetime import datetime

from service.admission.world import PendingUnit, Queue
from service.domain.queue import Stop


def is_open(queue: Queue | None) -> bool:
    """Whether the queue admits at all."""
    return queue is not None and queue.stop is Stop.NONE


def is_eligible(row: PendingUnit, now: datetime) -> bool:
    """Neither held nor backing off; a backoff that ends now is over."""
    return not row.is_held and (row.backoff_until is None or row.backoff_until <= now)
