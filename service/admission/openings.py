"""For which shapes there may be anything left to take, told for all queues of a cohort at once. A cycle only
takes: who is not among them need not be looked at again."""

from __future__ import annotations

from collections.abc import Iterable

from service.admission.fit import Fitter
from service.admission.query import ShapeQuery
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
        self._cohorts: dict[QuotaNode, _Cohort] = {}

    def has_quota(self, queue_id: int) -> bool:
        """Whether there may be quota for anything that waits in the queue."""
        cohort = self._cohort(queue_id)
        return cohort is None or not cohort.open.isdisjoint(self._shapes_in[queue_id])

    def has_room(self, queue_id: int) -> bool:
        """Whether there may be quota, and a place, for anything that waits in the queue."""
        cohort, misses = self._cohort(queue_id), self._fitter.misses
        for shape_id in self._shapes_in[queue_id]:
            if shape_id not in misses and (cohort is None or shape_id in cohort.open):
                return True
        return False

    def fits(self, queue_id: int, shape_id: int) -> bool:
        """Whether there is quota, and may be a place, for the shape."""
        if shape_id in self._fitter.misses:
            return False
        cohort = self._cohort(queue_id)
        if cohort is not None and shape_id not in cohort.open:
            return False
        return self._fitter.quota.has_room(queue_id, self._fitter.query(shape_id))

    def _cohort(self, queue_id: int) -> _Cohort | None:
        node = self._tree.queues[queue_id].parent
        if node is None:
            return None
        known = self._cohorts.get(node)
        if known is None:
            queries = ((shape_id, self._fitter.query(shape_id)) for shape_id in self._queues_of)
            known = self._cohorts[node] = _Cohort(self._tree, node, queries)
        if known.revision != node.root.revision:
            known.refresh()
        return known


class _Cohort:
    """`open`: shapes for which the members of the cohort may have quota, with what is held at `revision`."""

    def __init__(self, tree: QuotaTree, node: QuotaNode, queries: Iterable[tuple[int, ShapeQuery]]) -> None:
        self._tree = tree
        self._node = node
        self.revision = node.root.revision
        self.open: set[int] = set()
        #: By resource, what those need of it that have no choice of models, the most last.
        self._needs: dict[str, list[tuple[int, int]]] = {}
        lefts: dict[str, int | None] = {}
        for shape_id, query in queries:
            lefts.update({resource: self._left(resource) for resource in query.most if resource not in lefts})
            if not short_of(query, lefts):
                self.open.add(shape_id)
                self._note_needs(shape_id, query)
        for needs in self._needs.values():
            needs.sort()

    def refresh(self) -> None:
        """As quota is now: who needs too much is open no more."""
        self.revision = self._node.root.revision
        for resource, needs in self._needs.items():
            left = self._left(resource)
            while needs and left is not None and needs[-1][0] > left:
                self.open.discard(needs.pop()[1])

    def _note_needs(self, shape_id: int, query: ShapeQuery) -> None:
        has_choice = any(len(role.models) > 1 for role in query.roles)
        for resource, need in query.most.items():
            if need and (resource not in query.models or not has_choice):
                self._needs.setdefault(resource, []).append((need, shape_id))

    def _left(self, resource: str) -> int | None:
        """What a queue of the cohort may take at most; None: some have no bound."""
        node = self._node
        if resource in (CPUS, MEMORY) and resource not in node.counted_below:
            return None
        return max(0, self._tree.room_in(node, resource).amount + node.kept_below.get(resource, 0))
