"""Everyone who was left out, with all that binds at once (the architecture's section 7).

Amounts are those at the end of the cycle. What did not fit when it was its turn does not fit then
either, because a cycle only takes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from service.admission.backlog import ClassId, Key
from service.admission.eligibility import is_open
from service.admission.findings import explain_scattered, explain_shortages
from service.admission.fit import Fitter
from service.admission.memory import ClassMemo, Verdict
from service.admission.never import explain_never
from service.admission.order_view import QueueView
from service.admission.plan import Blocker, QueueVerdict
from service.admission.query import ShapeQuery
from service.admission.quota import QuotaBook, ceiling_key, quota_scope
from service.admission.resident import World
from service.admission.world import Queue
from service.domain.reasons import Code, rank
from service.domain.resources import MAX_QUOTA

_NO_NODES: Verdict = (Blocker(code=Code.NODES_UNAVAILABLE),)
_QUEUE_MISSING: Verdict = (Blocker(code=Code.QUEUE_MISSING),)


class Explainer:
    """Verdicts of one cycle; `numbers` collects the shared amounts that they name."""

    def __init__(self, world: World, now: datetime, *, quota: QuotaBook, fitter: Fitter) -> None:
        self._world = world
        self._quota = quota
        self._fitter = fitter
        self._now = now
        self._numbers: dict[str, int] = {}
        self._shapes: dict[int, Verdict] = {}

    def explain(
        self, *, blocked: Collection[ClassId], holding: Mapping[int, Key], finished: Collection[int]
    ) -> tuple[dict[int, QueueVerdict], dict[str, int]]:
        """A verdict for each queue, and the numbers that they share."""
        world = self._world
        by_queue: dict[int, dict[int, Verdict]] = {queue_id: {} for queue_id in world.configuration.queues}
        admitted = self._admitted_queues()
        for class_id in sorted(world.backlog.classes):
            queue_id, shape_id = class_id
            if queue_id not in admitted or self._has_rows(class_id, finished):
                verdict = self._class_verdict(class_id, class_id in blocked)
                by_queue.setdefault(queue_id, {})[shape_id] = verdict
        view = QueueView(world, self._now, finished=finished, admitted=admitted)
        queues = {
            queue_id: view.verdict(queue_id, verdicts, holding.get(queue_id))
            for queue_id, verdicts in sorted(by_queue.items())
        }
        return queues, dict(sorted(self._numbers.items()))

    def _admitted_queues(self) -> set[int]:
        return {admission.queue_id for admission in self._fitter.admissions}

    def _has_rows(self, class_id: ClassId, finished: Collection[int]) -> bool:
        return any(key[4] not in finished for key in self._world.backlog.classes[class_id])

    def _class_verdict(self, class_id: ClassId, is_blocked: bool) -> Verdict:
        queue_id, shape_id = class_id
        queue = self._world.configuration.queues.get(queue_id)
        if queue is None:
            return _QUEUE_MISSING
        query = self._fitter.query(shape_id)
        never = self._never(class_id, queue)
        exceeded = self._exceeded(queue, shape_id, query=query, is_blocked=is_blocked)
        self._count_quota(queue_id, exceeded)
        shape = self._shape_verdict(shape_id, query)
        known = self._world.memory.classes.get(class_id)
        if known is not None and known.shape is shape and known.exceeded == exceeded:
            return known.merged
        merged = self._merge(queue, query, never=never, exceeded=exceeded, shape=shape)
        self._world.memory.classes[class_id] = ClassMemo(shape, exceeded, merged)
        return merged

    def _merge(
        self, queue: Queue, query: ShapeQuery, *, never: Verdict, exceeded: tuple[str, ...], shape: Verdict
    ) -> Verdict:
        """All that binds, ranked."""
        found = [*never, *(_quota_blocker(queue, query, resource) for resource in exceeded)]
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
                self._world.feasibility, class_id[1], shape=shape, queue=queue, numbers=numbers
            )
            known = self._world.memory.never[class_id] = (never, numbers)
        self._numbers |= known[1]
        return known[0]

    def _shape_verdict(self, shape_id: int, query: ShapeQuery) -> Verdict:
        """Once in a cycle for all queues; empty if the shape has a place."""
        known = self._shapes.get(shape_id)
        if known is None:
            found: Verdict = ()
            if not self._world.configuration.nodes:
                found = _NO_NODES
            elif self._fitter.would_miss(shape_id):
                found = explain_shortages(query, self._numbers)
                if not found:
                    binding = self._world.capacity.binding(shape_id, query)
                    found = explain_scattered(query, binding, self._numbers)
            known = self._shapes[shape_id] = self._world.memory.same_shape(shape_id, found)
        return known

    def _exceeded(
        self, queue: Queue, shape_id: int, *, query: ShapeQuery, is_blocked: bool
    ) -> tuple[str, ...]:
        """Resources of which the queue has too little quota left."""
        exceeded = self._quota.exceeded(queue.id, shape_id, query)
        if is_blocked and not exceeded and not self._fitter.would_miss(shape_id):
            # It has places, on models for which the queue has no quota left.
            caps = self._quota.caps(queue.id, query)
            return tuple(model for model in query.models if query.most[model] > caps.get(model, MAX_QUOTA))
        return exceeded

    def _count_quota(self, queue_id: int, exceeded: tuple[str, ...]) -> None:
        for resource in exceeded:
            self._numbers[_used_key(queue_id, resource)] = self._quota.used(queue_id, resource)
            self._numbers[ceiling_key(queue_id, resource)] = self._quota.ceiling(queue_id, resource) or 0


def _quota_blocker(queue: Queue, query: ShapeQuery, resource: str) -> Blocker:
    return Blocker(
        code=Code.QUOTA_EXCEEDED,
        need=query.most[resource],
        have_key=_used_key(queue.id, resource),
        limit_key=ceiling_key(queue.id, resource),
        scope=quota_scope(queue, resource),
    )


def _used_key(queue_id: int, resource: str) -> str:
    return f"used:{queue_id}:{resource}"
