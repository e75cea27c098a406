"""Units for which others gave way, before anybody else: they start as soon as they can."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from service.admission.claims.book import ClaimBook
from service.admission.claims.kept_places import KeptPlaces, has_all_it_waits_for, has_lost_a_place
from service.admission.fit import Fitter
from service.admission.resident import World
from service.admission.waiting.line import Key
from service.domain.preemption import WasteCause
from service.domain.queue import Order


@dataclass(slots=True)
class Served:
    """`passed_over`: rows that are not considered again in this cycle, for they have started or wait for
    those who give way. `finished`: those of which nothing waits any more. `holding`: in strict queues,
    the first row that waits so."""

    passed_over: frozenset[int] = frozenset()
    finished: set[int] = field(default_factory=set)
    holding: dict[int, Key] = field(default_factory=dict)


def start_claimants(world: World, *, fitter: Fitter, claims: ClaimBook, without: Collection[int]) -> Served:
    """In the order of rows. What stays claimed is taken out of the World's capacity. Whoever has lost a
    place, or waits for nobody any more and may not start, loses its claim and is one of the others again."""
    waiting, served = claims.of_preemptions(), Served()
    fitter.has_kept |= bool(waiting)
    kept, passed_over = KeptPlaces(world, fitter, waiting), set(waiting)
    for unit_id in sorted(waiting, key=world.backlog.key):
        row, claim = world.pending[unit_id], waiting[unit_id]
        if unit_id in without:
            continue
        with kept.lifted_for(unit_id):
            fitted = fitter.fit_claimant(row)
        is_lost, is_clear = has_lost_a_place(claim, world), has_all_it_waits_for(claim, world)
        if fitted.placed or is_lost or is_clear:
            kept.give_up(unit_id)
        if fitted.placed:
            claims.end(unit_id, WasteCause.PLACE_LOST if is_lost else None)
        elif is_lost or is_clear:
            claims.end(unit_id, WasteCause.PLACE_LOST if is_lost else WasteCause.ENTITLEMENT_LOST)
        elif world.configuration.queues[row.queue_id].order is Order.STRICT:
            served.holding.setdefault(row.queue_id, world.backlog.key(row.id))
        if fitted.placed and not fitted.left:
            served.finished.add(unit_id)
        elif fitted.placed or is_lost or is_clear:
            passed_over.discard(unit_id)
    served.passed_over = frozenset(passed_over)
    return served
