"""Whose guard has run out: those who have lacked nothing but places for so long that places are kept for them
whatever their date."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from service.admission.resident import World
from service.admission.waiting.backlog import ClassId
from service.admission.waiting.eligibility import is_eligible, is_open
from service.admission.world import PendingUnit


def find_expired(
    world: World,
    now: datetime,
    guard_seconds: float,
    *,
    may_any: Callable[[ClassId], bool],
    is_next: Callable[[PendingUnit], bool],
) -> Iterator[PendingUnit]:
    """Of each class the first, in the order in which their guards ran out. `is_next`: whether a row may be
    the next to start of its queue, once it has places; who may not keeps nobody behind it from its guard.
    `may_any`: whether rows of a class are to be asked that."""
    for run_out in world.guards.in_order(world.backlog, world.pauses, now, guard_seconds):
        is_stopped = not is_open(world.configuration.queues.get(run_out.class_id[0]))
        if is_stopped or not may_any(run_out.class_id):
            continue
        rows = (world.pending[unit_id] for unit_id in run_out.unit_ids)
        row = next((row for row in rows if is_eligible(row, now) and is_next(row)), None)
        if row is not None:
            yield row
