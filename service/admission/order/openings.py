"""For which shapes there may be anything left to take, told for all queues of a cohort at once. A cycle only
takes: who is not among them need not be looked at again."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from service.admission.fit import Fitter
from service.admission.nodes.query import ShapeQuery
from service.admission.quota.book import short_of
from service.admission.quota.nodes import QuotaNode
from service.admission.quota.tree import QuotaTree
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
        self._needs: _Needs | None = None

    def has_quota(self, queue_id: int) -> bool:
        """Whether there may be quota for anything that waits in the queue."""
        cohort = self._cohort(queue_id)
        if cohort is not None and self._is_closed(cohort):
            return False
        return cohort is None or not cohort.closed.issuperset(self._shapes_in[queue_id])

    def open_among(self, queue_ids: Iterable[int]) -> list[int]:
        """Queues but for those whose cohort has no quota for anything that waits."""
        is_closed: dict[QuotaNode, bool] = {}
        found: list[int] = []
        for queue_id in queue_ids:
            node = self._tree.queues[queue_id].parent
            if node is not None:
                if node not in is_closed:
                    is_closed[node] = self._is_closed(self._of(node))
                if is_closed[node]:
                    continue
            found.append(queue_id)
        return found

    def has_room(self, queue_id: int) -> bool:
        """Whether there may be quota, and a place, for anything that waits in the queue."""
        cohort, misses = self._cohort(queue_id), self._fitter.misses
        if cohort is not None and self._is_closed(cohort):
            return False
        for shape_id in self._shapes_in[queue_id]:
            if shape_id not in misses and (cohort is None or shape_id not in cohort.closed):
                return True
        return False

    def fits(self, queue_id: int, shape_id: int) -> bool:
        """Whether there is quota, and may be a place, for the shape."""
        if shape_id in self._fitter.misses:
            return False
        cohort = self._cohort(queue_id)
        if cohort is not None and shape_id in cohort.closed:
            return False
        return self._fitter.quota.has_room(queue_id, self._fitter.query(shape_id))

    def is_closed(self, cohort: QuotaNode) -> bool:
        """Whether there is no quota for anything that waits, or no place, in any queue of the cohort: told at
        once, so that a no says nothing."""
        misses = self._fitter.misses
        is_hopeless = len(misses) >= len(self._queues_of) and misses.issuperset(self._queues_of)
        return is_hopeless or self._is_closed(self._of(cohort))

    def _is_closed(self, cohort: _Cohort) -> bool:
        return len(cohort.closed) == len(self._queues_of)

    def _cohort(self, queue_id: int) -> _Cohort | None:
        node = self._tree.queues[queue_id].parent
        return None if node is None else self._of(node)

    def _of(self, node: QuotaNode) -> _Cohort:
        known = self._cohorts.get(node)
        if known is None:
            if self._needs is None:
                self._needs = _needs_of((each, self._fitter.query(each)) for each in self._queues_of)
            known = self._cohorts[node] = _Cohort(self._tree, node, self._needs)
        if known.revision != node.root.revision:
            known.refresh()
        return known


class _Needs(NamedTuple):
    """What one unit of each shape needs. `sorted`: by resource, the amounts, the least first, and whose they
    are; without those models among which a role may choose. `choosing`: shapes that have such a role."""

    sorted: dict[str, tuple[list[int], list[int]]]
    choosing: list[tuple[int, ShapeQuery]]


def _needs_of(queries: Iterable[tuple[int, ShapeQuery]]) -> _Needs:
    needs: dict[str, list[tuple[int, int]]] = {}
    choosing: list[tuple[int, ShapeQuery]] = []
    for shape_id, query in queries:
        if query.has_choice:
            choosing.append((shape_id, query))
        for resource, need in query.most.items():
            if need and (resource not in query.models or not query.has_choice):
                needs.setdefault(resource, []).append((need, shape_id))
    in_order = {resource: sorted(each) for resource, each in needs.items()}
    return _Needs(
        {
            resource: ([need for need, _ in each], [one for _, one in each])
            for resource, each in in_order.items()
        },
        choosing,
    )


class _Cohort:
    """`closed`: shapes for which the members of the cohort have no quota, with what is held at `revision`."""

    def __init__(self, tree: QuotaTree, node: QuotaNode, needs: _Needs) -> None:
        self._tree = tree
        self._node = node
        self._needs = needs.sorted
        #: By resource, from which position of its needs on shapes are closed.
        self._ends = {resource: len(amounts) for resource, (amounts, _) in needs.sorted.items()}
        self.closed: set[int] = set()
        for shape_id, query in needs.choosing:
            if short_of(query, {resource: self._left(resource) for resource in query.most}):
                self.closed.add(shape_id)
        self.revision = -1
        self.refresh()

    def refresh(self) -> None:
        """As quota is now: who needs too much has none any more."""
        self.revision = self._node.root.revision
        for resource, (amounts, shape_ids) in self._needs.items():
            left, end = self._left(resource), self._ends[resource]
            first = end if left is None else bisect_right(amounts, left, 0, end)
            self.closed.update(shape_ids[first:end])
            self._ends[resource] = first

    def _left(self, resource: str) -> int | None:
        """What a queue of the cohort may take at most; None: some have no bound."""
        node = self._node
        if resource in (CPUS, MEMORY) and resource not in node.counted_below:
            return None
        return max(0, self._tree.left_in(node, resource) + node.kept_below.get(resource, 0))
