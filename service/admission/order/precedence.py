"""Who goes before a claim, though it was there first: never because shares have moved."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from service.admission.nodes.query import ShapeQuery
from service.admission.order.tournament import must_borrow
from service.admission.quota.entitlement import are_in_one_tree
from service.admission.resident import World
from service.admission.waiting.ranks import rank_of
from service.admission.world import PendingUnit, Queue, RunningUnit
from service.domain.claim import Claim, ClaimCause
from service.domain.queue import Order, PreemptWithin


class Precedence:
    """By priority within a queue, and in a cohort a unit within its queue's nominal quota before a head that
    would have to borrow."""

    def __init__(self, world: World, query_of: Callable[[int], ShapeQuery]) -> None:
        self._world = world
        self._query_of = query_of
        #: Whether classes must borrow, and how often quota had changed when that was asked.
        self._borrowing: dict[tuple[int, int], tuple[int, bool]] = {}

    def goes_before(self, row: PendingUnit, claim: Claim) -> bool:
        claimant = self._world.pending[claim.unit_id]
        if row.queue_id == claimant.queue_id:
            return overtakes(row, claimant, self._world.configuration.queues[row.queue_id])
        if claim.cause is not ClaimCause.HEAD:
            return False
        tree = self._world.quota
        is_near = are_in_one_tree(row.queue_id, claimant.queue_id, tree)
        return is_near and self._borrows(claimant) and not self._borrows(row)

    def _borrows(self, row: PendingUnit) -> bool:
        node, key = self._world.quota.queues[row.queue_id], (row.queue_id, row.shape_id)
        if node.parent is None:
            return False
        revision, known = node.root.revision, self._borrowing.get(key)
        if known is None or known[0] != revision:
            known = self._borrowing[key] = revision, must_borrow(node, self._query_of(row.shape_id))
        return known[1]


def overtakes(row: PendingUnit, claimant: PendingUnit, queue: Queue) -> bool:
    """Within one queue: by priority. In a strict queue nobody comes before the first; elsewhere whoever came
    later and is shorter leaves what is kept to whom it is kept for."""
    if row.id == claimant.id:
        return False
    if row.priority != claimant.priority:
        return row.priority > claimant.priority
    return queue.order is Order.STRICT and _order(row, queue) < _order(claimant, queue)


def _order(row: PendingUnit, queue: Queue) -> tuple[int, datetime, int]:
    return rank_of(row, queue.policy.order_by), row.submitted_at, row.group_id


def may_preempt(claimant: PendingUnit, other: PendingUnit | RunningUnit, queue: Queue) -> bool:
    """Whether the claimant could take its places back from the other at once, whenever they are due: only
    within its queue, where nothing that others hold decides it."""
    return (
        other.queue_id == claimant.queue_id
        and other.priority < claimant.priority
        and other.is_preemptible
        and not claimant.has_never_run
        and queue.policy.preempt_within is PreemptWithin.LOWER_PRIORITY
        and not queue.policy.min_runtime_seconds
        and queue.policy.evictions_per_day is None
    )
