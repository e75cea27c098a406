"""Everyone who was left out, with all that binds at once (the architecture's section 7).

Amounts are those at the end of the cycle. What did not fit when it was its turn does not fit then
either, because a cycle only takes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from service.admission.backlog import ClassId
from service.admission.eligibility import is_open
from service.admission.findings import explain_scattered, explain_shortages
from service.admission.fit import Fitter
from service.admission.line import Key
from service.admission.memory import ClassesMemo, ClassMemo, Ground, Numbers, ShapeMemo, Verdict
from service.admission.never import explain_never
from service.admission.order_view import QueueView
from service.admission.plan import Blocker, QueueVerdict
from service.admission.query import ShapeQuery
from service.admission.quota import Exceeded, QuotaBook
from service.admission.quota_blockers import quota_blocker, quota_numbers
from service.admission.resident import World
from service.admission.world import Queue
from service.domain.reasons import Code, rank
from service.domain.resources import MAX_QUOTA

_NO_NODES: Verdict = (Blocker(code=Code.NODES_UNAVAILABLE),)
#: The stamp of a verdict that holds for its own cycle alone.
_NEVER_AGAIN = (-1, -1)
_QUEUE_MISSING: Verdict = (Blocker(code=Code.QUEUE_MISSING),)


class Explainer:
    """Verdicts of one cycle. `parts` collects the shared amounts that they name."""

    def __init__(self, world: World, now: datetime, *, quota: QuotaBook, fitter: Fitter) -> None:
        self._world = world
        self._quota = quota
        self._fitter = fitter
        self._now = now
        self._parts: list[Numbers] = []
        self._shapes: dict[int, Verdict] = {}

    def explain(
        self, *, blocked: Collection[ClassId], holding: Mapping[int, Key], finished: Collection[int]
    ) -> tuple[dict[int, QueueVerdict], Numbers]:
        """A verdict for each queue, and the numbers that they share."""
        world = self._world
        admitted = {admission.queue_id for admission in self._fitter.admissions}
        self._shapes = {
            shape_id: self._shape_verdict(shape_id) for shape_id in sorted(world.backlog.queues_of)
        }
        # Whoever has no place anywhere needs no other reason.
        heads = _by_queue(class_id for class_id in blocked if not self._shapes[class_id[1]])
        view = QueueView(world, self._now, finished=finished, admitted=admitted)
        queues: dict[int, QueueVerdict] = {}
        for queue_id in sorted({*world.configuration.queues, *world.backlog.shapes_in}):
            of_queue = heads.get(queue_id, frozenset())
            if queue_id in admitted:
                verdicts = self._verdicts(queue_id, self._left_shapes(queue_id, finished), of_queue)
            else:
                verdicts = self._known_verdicts(queue_id, of_queue)
            queues[queue_id] = view.verdict(queue_id, verdicts, holding.get(queue_id))
        return queues, world.memory.merged_numbers(self._parts)

    def _left_shapes(self, queue_id: int, finished: Collection[int]) -> list[int]:
        """Shapes of which something still waits: what was admitted does so, for the World, until it is
        committed."""
        backlog = self._world.backlog
        return [
            shape_id
            for shape_id in backlog.shapes_in.get(queue_id, ())
            if any(key[4] not in finished for key in backlog.classes[queue_id, shape_id])
        ]

    def _known_verdicts(self, queue_id: int, blocked: frozenset[int]) -> Mapping[int, Verdict]:
        """As in the last cycle, if they follow from the same."""
        world = self._world
        shape_ids = world.backlog.shapes_in.get(queue_id, [])
        ground = Ground(
            world.backlog.class_revisions.get(queue_id, 0),
            self._quota.rooms_of(queue_id) if queue_id in world.quota.queues else (),
            tuple([self._shapes[shape_id] for shape_id in shape_ids]),
            blocked,
        )
        known = world.memory.queue_classes.get(queue_id)
        if known is None or known.ground != ground:
            before, self._parts = self._parts, []
            by_shape = self._verdicts(queue_id, shape_ids, blocked)
            numbers = {name: amount for part in self._parts for name, amount in part.items()}
            self._parts = before
            if known is not None and known.by_shape == by_shape:
                by_shape = known.by_shape
            known = world.memory.queue_classes[queue_id] = ClassesMemo(ground, by_shape, numbers)
        self._parts.append(known.numbers)
        return known.by_shape

    def _verdicts(
        self, queue_id: int, shape_ids: Iterable[int], blocked: frozenset[int]
    ) -> Mapping[int, Verdict]:
        queue = self._world.configuration.queues.get(queue_id)
        if queue is None:
            return dict.fromkeys(shape_ids, _QUEUE_MISSING)
        return {
            shape_id: self._class_verdict(queue, shape_id, is_blocked=shape_id in blocked)
            for shape_id in shape_ids
        }

    def _class_verdict(self, queue: Queue, shape_id: int, *, is_blocked: bool) -> Verdict:
        class_id = queue.id, shape_id
        query = self._fitter.query(shape_id)
        never = self._never(class_id, queue)
        exceeded = self._exceeded(queue, shape_id, query=query, is_blocked=is_blocked)
        if exceeded:
            self._parts.append(quota_numbers(self._quota, queue.id, exceeded))
        shape = self._shapes[shape_id]
        known = self._world.memory.classes.get(class_id)
        if known is not None and known.shape is shape and known.exceeded == exceeded:
            return known.merged
        merged = self._merge(queue, query, never=never, exceeded=exceeded, shape=shape)
        self._world.memory.classes[class_id] = ClassMemo(shape, exceeded, merged)
        return merged

    def _merge(
        self,
        queue: Queue,
        query: ShapeQuery,
        *,
        never: Verdict,
        exceeded: tuple[Exceeded, ...],
        shape: Verdict,
    ) -> Verdict:
        """All that binds, ranked."""
        found = [*never]
        found.extend(quota_blocker(self._world.configuration, queue, query, each) for each in exceeded)
        if not is_open(queue):
            scope = {"queue": queue.name, "stop": queue.stop.value}
            found.append(Blocker(code=Code.QUEUE_STOPPED, scope=scope))
        if all("queue" in blocker.scope for blocker in never):
            # What is free today says nothing to a group that does not even fit on idle nodes.
            found.extend(shape)
        return tuple(sorted(found, key=lambda blocker: rank(blocker.code)))

    def _never(self, class_id: ClassId, queue: Queue) -> Verdict:
        known = self._world.memory.never.get(class_id)
        if known is None:
            numbers: dict[str, int] = {}
            shape = self._world.shapes[class_id[1]]
            never = explain_never(
                self._world.feasibility,
                class_id[1],
                shape=shape,
                tree=self._world.quota,
                queue=queue,
                numbers=numbers,
            )
            known = self._world.memory.never[class_id] = (never, numbers)
        self._parts.append(known[1])
        return known[0]

    def _shape_verdict(self, shape_id: int) -> Verdict:
        """Once in a cycle for all queues; empty if the shape has a place. As in the last cycle, if
        nothing has been taken or freed where it looks."""
        memory, query = self._world.memory, self._fitter.query(shape_id)
        stamp = None if self._world.capacity.is_in_use else (query.grown(), query.shrunk())
        known = memory.shapes.get(shape_id)
        if known is None or known.stamp != stamp:
            numbers: dict[str, int] = {}
            verdict = memory.same_shape(shape_id, self._find_shape_verdict(shape_id, query, numbers))
            known = ShapeMemo(stamp or _NEVER_AGAIN, verdict, numbers)
            memory.shapes[shape_id] = known
        self._parts.append(known.numbers)
        return known.verdict

    def _find_shape_verdict(self, shape_id: int, query: ShapeQuery, numbers: dict[str, int]) -> Verdict:
        if not self._world.configuration.nodes:
            return _NO_NODES
        if not self._fitter.would_miss(shape_id):
            return ()
        found = explain_shortages(query, numbers)
        if found:
            return found
        return explain_scattered(query, self._world.capacity.binding(shape_id, query), numbers)

    def _exceeded(
        self, queue: Queue, shape_id: int, *, query: ShapeQuery, is_blocked: bool
    ) -> tuple[Exceeded, ...]:
        """Resources of which the queue has too little quota left."""
        exceeded = self._quota.exceeded(queue.id, query)
        if is_blocked and not exceeded and not self._fitter.would_miss(shape_id):
            # It has places, on models for which the queue has no quota left.
            caps = self._quota.caps(queue.id, query)
            exceeded = tuple(
                model for model in query.models if query.most[model] > caps.get(model, MAX_QUOTA)
            )
        return self._quota.bounds(queue.id, exceeded)


def _by_queue(classes: Iterable[ClassId]) -> dict[int, frozenset[int]]:
    shapes: dict[int, set[int]] = {}
    for queue_id, shape_id in classes:
        shapes.setdefault(queue_id, set()).add(shape_id)
    return {queue_id: frozenset(of_queue) for queue_id, of_queue in shapes.items()}
