"""Everyone who was left out, with all that binds at once (the architecture's section 7).

Amounts are those at the end of the cycle. What did not fit when it was its turn does not fit then
either, because a cycle only takes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from service.admission.backlog import ClassId
from service.admission.eligibility import is_open
from service.admission.findings import explain_places
from service.admission.fit import Fitter
from service.admission.memory import Verdict
from service.admission.never import explain_never
from service.admission.order_view import QueueView
from service.admission.ordering import Head
from service.admission.plan import Blocker, QueueVerdict
from service.admission.query import ShapeQuery
from service.admission.quota import QuotaBook, gpus_by_model
from service.admission.resident import World
from service.admission.world import Queue
from service.domain.reasons import Code, rank
from service.domain.resources import CPUS, MEMORY

_NO_NODES: Verdict = (Blocker(code=Code.NODES_UNAVAILABLE),)
_QUEUE_MISSING: Verdict = (Blocker(code=Code.QUEUE_MISSING),)


class Explainer:
    """Verdicts of one cycle; `numbers` collects the shared amounts that they name."""

    def __init__(self, world: World, quota: QuotaBook, fitter: Fitter, now: datetime) -> None:
        self._world = world
        self._quota = quota
        self._fitter = fitter
        self._now = now
        self._numbers: dict[str, int] = {}
        self._shapes: dict[tuple[int, bool], Verdict] = {}

    def explain(
        self, blocked: Collection[ClassId], holding: Mapping[int, Head], finished: Collection[int]
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
        view = QueueView(world, self._now, finished, admitted)
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
        own = self._own(queue, shape_id, query, is_blocked)
        is_tried = is_blocked and self._fitter.has_missed(shape_id)
        shape = self._shape_verdict(shape_id, query, is_tried)
        if any(blocker.code is Code.NO_MATCHING_FLAVOR for blocker in own):
            # Amounts on no node at all say nothing.
            shape = ()
        if known := self._world.memory.find_class(class_id, shape, own):
            return known
        merged = tuple(sorted((*own, *shape), key=lambda blocker: rank(blocker.code)))
        self._world.memory.keep_class(class_id, shape, own, merged)
        return merged

    def _shape_verdict(self, shape_id: int, query: ShapeQuery, is_tried: bool) -> Verdict:
        """Once in a cycle for all queues."""
        known = self._shapes.get((shape_id, is_tried))
        if known is None:
            if self._world.configuration.nodes:
                found = explain_places(query, self._numbers, is_tried=is_tried)
            else:
                found = _NO_NODES
            known = self._world.memory.same_shape(shape_id, is_tried, found)
            self._shapes[shape_id, is_tried] = known
        return known

    def _own(self, queue: Queue, shape_id: int, query: ShapeQuery, is_blocked: bool) -> Verdict:
        """What binds the class in its queue: the queue's stop, its quota, and never fitting."""
        found: list[Blocker] = []
        if not is_open(queue):
            found.append(
                Blocker(code=Code.QUEUE_STOPPED, scope={"queue": queue.name, "stop": queue.stop.value})
            )
        exceeded = self._quota.exceeded(queue.id, query)
        if is_blocked and not exceeded and not self._fitter.would_miss(shape_id):
            # It has places, on models for which the queue has no quota left.
            exceeded = self._without_room(queue, query)
        found.extend(self._quota_blocker(queue, query, resource) for resource in exceeded)
        found.extend(
            explain_never(
                self._world.feasibility, shape_id, self._world.shapes[shape_id], queue, self._numbers
            )
        )
        return tuple(found)

    def _without_room(self, queue: Queue, query: ShapeQuery) -> tuple[str, ...]:
        caps = self._quota.caps(queue.id, query)
        return tuple(
            sorted(model for model, gpus in gpus_by_model(query).items() if gpus > caps.get(model, gpus))
        )

    def _quota_blocker(self, queue: Queue, query: ShapeQuery, resource: str) -> Blocker:
        used_key, limit_key = f"used:{queue.id}:{resource}", f"ceiling:{queue.id}:{resource}"
        self._numbers[used_key] = self._quota.used(queue.id, resource)
        self._numbers[limit_key] = self._quota.ceiling(queue.id, resource) or 0
        scope = {"queue": queue.name, "resource": resource}
        if resource not in (CPUS, MEMORY):
            scope |= {"resource": "gpus", "flavor": resource}
        needs = {CPUS: query.total.cpus_milli, MEMORY: query.total.memory_mib, **gpus_by_model(query)}
        return Blocker(
            code=Code.QUOTA_EXCEEDED,
            need=needs[resource],
            have_key=used_key,
            limit_key=limit_key,
            scope=scope,
        )
