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
    """Nobody holds it, no other group has to end first, and what it waits for by the clock is over; what
    is over now is over."""
    if row.is_held or row.open_dependencies:
        return False
    until = waits_until(row)
    return until is None or until <= now


def is_plain(row: PendingUnit) -> bool:
    """Whether it is eligible at any instant."""
    return not row.is_held and not row.open_dependencies and waits_until(row) is None


def waits_until(row: PendingUnit) -> datetime | None:
    """What it waits for by the clock alone: the end of its backoff, and the instant before which its owner
    does not want it to start. None if neither was ever set."""
    if row.backoff_until is None or row.not_before_at is None:
        return row.backoff_until or row.not_before_at
    return max(row.backoff_until, row.not_before_at)
