"""Whose guard has run out: heads of classes that have waited so long that places are kept for them whatever
their date."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from service.admission.backlog import ClassId
from service.admission.eligibility import is_eligible, is_open
from service.admission.resident import World
from service.admission.world import PendingUnit

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: So many are served in one cycle, those whose guard ran out first.
_SERVED = 64


def waits_since(row: PendingUnit) -> datetime:
    """Since when it could have been admitted."""
    return row.waiting_since or row.submitted_at


def find_expired(
    world: World,
    now: datetime,
    guard_seconds: float,
    *,
    is_next: Callable[[PendingUnit], bool],
) -> list[PendingUnit]:
    """Of each class the first, in the order in which their guards ran out. `is_next`: whether a row may be
    the next to start of its queue, once it has places; who may not keeps nobody behind it from its guard."""
    until = now - timedelta(seconds=guard_seconds)
    rows = [
        row
        for queue_id, keys in world.backlog.heads_in.items()
        if is_open(world.configuration.queues.get(queue_id))
        for key in keys
        if (row := _first(world, (queue_id, key[5]), now, until, is_next)) is not None
    ]
    return sorted(rows, key=lambda row: (waits_since(row), row.id))[:_SERVED]


def _first(
    world: World,
    class_id: ClassId,
    now: datetime,
    until: datetime,
    is_next: Callable[[PendingUnit], bool],
) -> PendingUnit | None:
    """Rows of one priority stand by their submission, so that most of them need no look."""
    latest, keys = (until - _EPOCH) // timedelta(microseconds=1), world.backlog.classes[class_id]
    index = 0
    while index < len(keys):
        key = keys[index]
        if key[1] > latest:
            index = bisect_left(keys, (key[0] + 1,))
            continue
        row = world.pending[key[4]]
        if waits_since(row) <= until and is_eligible(row, now) and is_next(row):
            return row
        index += 1
    return None
