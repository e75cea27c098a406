"""What could be placed if everything were idle, up and healthy: the difference between waiting and
never fitting."""

from __future__ import annotations

from collections.abc import Mapping

from service.admission.capacity import Capacity
from service.admission.placement import place_gang, place_members
from service.admission.query import ShapeQuery
from service.admission.quota import ceilings, exceeded_models, is_within_ceilings
from service.admission.quota_tree import QuotaTree
from service.admission.world import Configuration
from service.domain.shape import Shape


class Feasibility:
    """Answers for one set of nodes, whatever their states, each found once. With no node registered
    everything counts as feasible: nothing is known about the nodes that will come."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._capacity: Capacity | None = None
        self._answers: dict[tuple[int, frozenset[tuple[str, int]]], bool] = {}

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
        if key not in self._answers:
            capacity, query = self._ideal(), self.query(shape_id, shape)
            if shape.is_gang:
                self._answers[key] = place_gang(capacity, query, caps=caps) is not None
            else:
                self._answers[key] = bool(place_members(capacity, query, caps=caps, want=1))
        return self._answers[key]

    def _ideal(self) -> Capacity:
        if self._capacity is None:
            self._capacity = Capacity(self._configuration, is_ideal=True)
        return self._capacity
