"""What is no room for a running group to grow into: places, and quota, that groups wait for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

from service.admission.fit import Fitter
from service.admission.quota.book import QuotaBook
from service.admission.resident import World
from service.admission.waiting.backlog import ClassId
from service.admission.waiting.eligibility import is_eligible, is_open


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """`nodes`: those that somebody could use who lacks nothing but places. `quota`: resources, by queue, of
    which somebody in it lacks quota."""

    nodes: frozenset[int] = frozenset()
    quota: dict[int, frozenset[str]] = field(default_factory=dict)


def find_awaited(
    world: World, now: datetime, *, fitter: Fitter, quota: QuotaBook, without: Collection[int]
) -> Awaited:
    """Of all that waits, may start now, and could fit; rows `without` do not wait any more."""
    nodes: set[int] = set()
    short: dict[int, frozenset[str]] = {}
    for shape_id, queue_ids in sorted(world.backlog.queues_of.items()):
        query, lacks_places = fitter.query(shape_id), False
        for queue_id in sorted(queue_ids):
            if not _waits(world, (queue_id, shape_id), now=now, without=without):
                continue
            exceeded = quota.exceeded(queue_id, query)
            lacks_places |= not exceeded
            short[queue_id] = short.get(queue_id, frozenset()).union(exceeded)
        if lacks_places:
            nodes.update(*(each.members for each in query.fields))
    return Awaited(nodes=frozenset(nodes), quota=short)


def _waits(world: World, class_id: ClassId, *, now: datetime, without: Collection[int]) -> bool:
    queue_id, shape_id = class_id
    if not is_open(world.configuration.queues.get(queue_id)):
        return False
    if not world.feasibility.fits(shape_id, world.shapes[shape_id], world.quota, queue_id):
        return False
    ids = (key[4] for key in world.backlog.classes[class_id])
    return any(unit_id not in without and is_eligible(world.pending[unit_id], now) for unit_id in ids)
