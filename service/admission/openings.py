"""For which shapes there may be anything to take when a cycle begins, told for all queues of a cohort at
once. A cycle only takes: who is not among them need not be looked at."""

from __future__ import annotations

from service.admission.fit import Fitter
from service.admission.quota import short_of
from service.admission.quota_nodes import QuotaNode
from service.admission.quota_tree import QuotaTree
from service.admission.resident import World
from service.domain.resources import CPUS, MEMORY


class Openings:
    """Of one cycle. Too much rather than too little: what queues keep to themselves counts for all of their
    cohort, and what bounds a queue alone counts for nothing."""

    def __init__(self, world: World, fitter: Fitter) -> None:
        self._tree = world.quota
        self._shapes_in = world.backlog.shapes_in
        self._queues_of = world.backlog.queues_of
        self._fitter = fitter
        self._within: dict[QuotaNode | None, frozenset[int]] = {}
        self._fitting: dict[QuotaNode | None, frozenset[int]] = {}

    def has_quota(self, queue_id: int) -> bool:
        """Whether there may be quota for anything that waits in the queue."""
        return not self._within_quota(self._cohort(queue_id)).isdisjoint(self._shapes_in[queue_id])

    def has_room(self, queue_id: int) -> bool:
        """Whether there may be quota, and a place, for anything that waits in the queue."""
        return not self.fitting(queue_id).isdisjoint(self._shapes_in[queue_id])

    def fitting(self, queue_id: int) -> frozenset[int]:
        """Shapes for which there may be quota and a place."""
        cohort = self._cohort(queue_id)
        known = self._fitting.get(cohort)
        if known is None:
            known = self._fitting[cohort] = self._within_quota(cohort) - self._fitter.misses
        return known

    def _within_quota(self, cohort: QuotaNode | None) -> frozenset[int]:
        known = self._within.get(cohort)
        if known is None:
            known = frozenset(
                shape_id for shape_id in self._queues_of if cohort is None or self._may_have(cohort, shape_id)
            )
            self._within[cohort] = known
        return known

    def _may_have(self, cohort: QuotaNode, shape_id: int) -> bool:
        query = self._fitter.query(shape_id)
        return not short_of(query, {each: _left(self._tree, cohort, each) for each in query.most})

    def _cohort(self, queue_id: int) -> QuotaNode | None:
        return self._tree.queues[queue_id].parent


def _left(tree: QuotaTree, cohort: QuotaNode, resource: str) -> int | None:
    """What a queue of the cohort has at most; None: some have no bound."""
    if resource in (CPUS, MEMORY) and resource not in cohort.counted_below:
        return None
    return max(0, tree.room_in(cohort, resource).amount + cohort.kept_below.get(resource, 0))
