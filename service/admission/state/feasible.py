"""What could be placed if everything were idle, up and healthy: the difference between waiting and
never fitting."""

from __future__ import annotations

from collections.abc import Mapping

from service.admission.differences import NodeChanges
from service.admission.nodes.capacity import Capacity
from service.admission.nodes.query import ShapeQuery
from service.admission.placement.placement import place_gang, place_members
from service.admission.quota.book import ceilings, exceeded_models, is_within_ceilings
from service.admission.quota.tree import QuotaTree
from service.admission.world import Configuration
from service.domain.shape import Shape


class Feasibility:
    """Answers for nodes whatever their states, each found once for the nodes that decide it. With no node
    registered everything counts as feasible: nothing is known about the nodes that will come."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._capacity: Capacity | None = None
        #: And how much the shape's fields had shrunk or grown then.
        self._answers: dict[tuple[int, frozenset[tuple[str, int]]], tuple[bool, tuple[int, int]]] = {}

    def follow(self, configuration: Configuration, changes: NodeChanges) -> bool:
        """Go on with other nodes of the same pools; False, and nothing here is good any more, if that cannot
        be."""
        self._configuration = configuration
        if self._capacity is None or changes.is_of_states_alone:
            return True
        return self._capacity.follow(changes._replace(states=()))

    def query(self, shape_id: int, shape: Shape) -> ShapeQuery:
        """The shape on idle, healthy nodes."""
        return self._ideal().query(shape_id, shape)

    def fits_nodes(self, shape_id: int, shape: Shape) -> bool:
        """Whether the nodes could ever hold one unit, whatever the quota."""
        return self._fits(shape_id, shape, {})

    def fits(
        self, shape_id: int, shape: Shape, tree: QuotaTree, queue_id: int, *, is_within: bool = False
    ) -> bool:
        """Whether one unit could ever be admitted from this queue; `is_within`: one that may not borrow."""
        if not self._configuration.nodes:
            return True
        query = self.query(shape_id, shape)
        caps = ceilings(tree, queue_id, query, is_within=is_within)
        if not is_within_ceilings(tree, queue_id, query) or exceeded_models(query, caps):
            return False
        bounding = {model: cap for model, cap in caps.items() if cap < query.total.gpus}
        return self._fits(shape_id, shape, bounding)

    def _fits(self, shape_id: int, shape: Shape, caps: Mapping[str, int]) -> bool:
        if not self._configuration.nodes:
            return True
        key = (shape_id, frozenset(caps.items()))
        query = self.query(shape_id, shape)
        known = self._answers.get(key)
        stamp = query.grown(), query.shrunk()
        if known is None or known[1] != stamp:
            known = self._answers[key] = self._find(shape, query, caps), stamp
        return known[0]

    def _find(self, shape: Shape, query: ShapeQuery, caps: Mapping[str, int]) -> bool:
        if shape.is_gang:
            return place_gang(self._ideal(), query, caps=caps) is not None
        return bool(place_members(self._ideal(), query, caps=caps, want=1))

    def _ideal(self) -> Capacity:
        if self._capacity is None:
            self._capacity = Capacity(self._configuration, is_ideal=True)
        return self._capacity
