"""What is kept for those for whom others give way. Nobody else gets it, but it is not held: reasons count it
as free, and those who would find places or quota there are told for whom it is kept."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from service.admission.claims.book import ClaimBook
from service.admission.claims.held_for import held_for
from service.admission.held.holds import Taken, taken_by
from service.admission.nodes.query import ShapeQuery
from service.admission.plan import Blocker
from service.admission.preemption.usages import usage_at
from service.admission.quota.blockers import quota_scope
from service.admission.quota.book import Exceeded, QuotaBook
from service.admission.quota.entitlement import are_in_one_tree
from service.admission.resident import World
from service.admission.waiting.backlog import ClassId
from service.admission.world import Queue
from service.domain.claim import Claim


class Promised:
    """Of one cycle, at its end. `taken`: places, by the unit for which they are kept."""

    def __init__(self, world: World, quota: QuotaBook, claims: ClaimBook) -> None:
        self._world = world
        self._quota = quota
        self.claims = claims
        self._of_preemptions = claims.of_preemptions()
        rows = {unit_id: world.pending[unit_id] for unit_id in sorted(self._of_preemptions)}
        self.taken: Mapping[int, tuple[Taken, ...]] = {
            unit_id: taken_by(self._of_preemptions[unit_id].places, world.shapes[row.shape_id])
            for unit_id, row in rows.items()
        }
        self._usages = {
            unit_id: (row.queue_id, usage_at(world, row.shape_id, self._of_preemptions[unit_id].places))
            for unit_id, row in rows.items()
        }
        #: Resources of which a class would have enough, and how much is left of each beside what is kept.
        self._left: dict[ClassId, dict[str, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._of_preemptions)

    @contextmanager
    def told(self) -> Iterator[None]:
        """As reasons count: all that is kept for anybody is free."""
        mark = self.lend()
        self._refund()
        try:
            yield
        finally:
            self.keep()
            self._world.capacity.undo(mark)

    def lend(self) -> int:
        """All places that are kept for anybody, until `undo` of the capacity with what this returns."""
        of_preemptions = (taken for of_one in self.taken.values() for taken in of_one)
        return self._world.capacity.lend((*self.claims.all_taken(), *of_preemptions))

    def lift(self) -> None:
        """Count the quota as free: what classes lack beside what is kept is known from then on."""
        before = {
            (queue_id, shape_id): exceeded
            for queue_id in self._world.backlog.shapes_in
            if any(self._is_near(queue_id, each) for each in self._of_preemptions)
            for shape_id, exceeded in self._world.memory.gates.of(queue_id).exceeded.items()
            if exceeded
        }
        for class_id, exceeded in before.items():
            self._left[class_id] = {
                each.resource: self._quota.headroom(class_id[0], each.resource) or 0 for each in exceeded
            }
        self._refund()

    def _refund(self) -> None:
        for queue_id, usage in self._usages.values():
            self._quota.charge(queue_id, {resource: -amount for resource, amount in usage.items()})

    def keep(self) -> None:
        """The opposite."""
        for queue_id, usage in self._usages.values():
            self._quota.charge(queue_id, usage)

    def blockers(
        self, queue: Queue, shape_id: int, query: ShapeQuery, *, exceeded: Collection[Exceeded]
    ) -> Iterator[Blocker]:
        """For a class that lacks quota only because it is kept; `exceeded` is what it lacks anyway."""
        lacking = {each.resource for each in exceeded}
        for resource in self._left.get((queue.id, shape_id), ()):
            if resource not in lacking:
                yield held_for(
                    self._world,
                    self._keepers(queue.id, resource),
                    need=query.most[resource],
                    have_key=_left_key(queue.id, resource),
                    scope={**quota_scope(queue, resource), "of": "quota"},
                )

    def numbers(self) -> dict[str, int]:
        """The shared numbers that these name."""
        return {
            _left_key(queue_id, resource): left
            for (queue_id, _), lacking in self._left.items()
            for resource, left in lacking.items()
        }

    def _keepers(self, queue_id: int, resource: str) -> list[Claim]:
        return [
            claim
            for unit_id, claim in sorted(self._of_preemptions.items())
            if self._is_near(queue_id, unit_id) and self._usages[unit_id][1].get(resource)
        ]

    def _is_near(self, queue_id: int, unit_id: int) -> bool:
        return are_in_one_tree(queue_id, self._usages[unit_id][0], self._world.quota)


def _left_key(queue_id: int, resource: str) -> str:
    return f"promised:{queue_id}:{resource}"
