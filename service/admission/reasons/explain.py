"""Everyone who was left out, with all that binds at once (the architecture's section 7).

Amounts are those at the end of the cycle. What did not fit when it was its turn does not fit then
either, because a cycle only takes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime

from service.admission.claims.kept_quota import KeptQuota
from service.admission.claims.promised import Promised
from service.admission.fit import Fitter
from service.admission.held.holds import Taken
from service.admission.nodes.query import ShapeQuery
from service.admission.order.view import QueueView
from service.admission.plan import Blocker, QueueVerdict
from service.admission.quota.blockers import cohort_numbers, quota_blocker, quota_numbers
from service.admission.quota.book import Exceeded, QuotaBook
from service.admission.reasons.findings import explain_missing, explain_scattered, explain_shortages
from service.admission.reasons.kept_from import (
    explain_kept,
    find_place,
    kept_numbers,
    nothing_else_kept,
    quota_kept,
)
from service.admission.reasons.never import explain_never
from service.admission.resident import World
from service.admission.state.memory import ClassesMemo, ClassMemo, Numbers, ShapeMemo, Verdict
from service.admission.waiting.backlog import ClassId
from service.admission.waiting.eligibility import is_open
from service.admission.waiting.line import Key
from service.admission.waiting.terms import whole_id
from service.admission.world import Queue
from service.domain.reasons import Code, rank
from service.domain.resources import MAX_QUOTA

_NO_NODES: Verdict = (Blocker(code=Code.NODES_UNAVAILABLE),)
#: The stamp of a verdict that holds for its own cycle alone.
_NEVER_AGAIN = (-1, -1, -1)
_NO_CLASSES = ClassesMemo({}, frozenset(), frozenset(), {}, {})
_QUEUE_MISSING: Verdict = (Blocker(code=Code.QUEUE_MISSING),)


class Explainer:
    """Verdicts of one cycle. `parts` collects the shared amounts that they name."""

    def __init__(
        self,
        world: World,
        now: datetime,
        *,
        quota: QuotaBook,
        fitter: Fitter,
        promised: Promised,
        kept: KeptQuota,
    ) -> None:
        self._world = world
        self._quota = quota
        self._fitter = fitter
        self._claims = promised.claims
        #: Classes that find places and quota, but have to leave the quota to others.
        self._kept_quota = kept.still_stopped()
        #: Shapes that find no place beside what is kept for others, and what that is, by unit.
        self._kept_from: frozenset[int] = frozenset()
        #: Those of them that find one beside what is kept when the cycle is committed.
        self._next: frozenset[int] = frozenset()
        self._kept: dict[int, tuple[Taken, ...]] = {}
        self._promised = promised
        self._now = now
        self._parts: list[Numbers] = []
        self._shapes: dict[int, Verdict] = {}

    def explain(
        self,
        *,
        blocked: Collection[ClassId],
        holding: Mapping[int, Key],
        finished: Collection[int],
        emptied: Mapping[int, Collection[int]],
    ) -> tuple[dict[int, QueueVerdict], Numbers]:
        """A verdict for each queue, and the numbers that they share. `finished`: rows of which nothing waits
        any more, `emptied`: by queue, shapes of which nothing waits without them."""
        if not self._promised:
            return self._explain(blocked=blocked, holding=holding, finished=finished, emptied=emptied)
        gates = self._world.memory.gates
        gates.refresh(self._world.backlog, self._quota, self._fitter.query)
        self._promised.lift()
        try:
            return self._explain(blocked=blocked, holding=holding, finished=finished, emptied=emptied)
        finally:
            self._promised.keep()
            gates.refresh(self._world.backlog, self._quota, self._fitter.query)

    def _explain(
        self,
        *,
        blocked: Collection[ClassId],
        holding: Mapping[int, Key],
        finished: Collection[int],
        emptied: Mapping[int, Collection[int]],
    ) -> tuple[dict[int, QueueVerdict], Numbers]:
        world, memory = self._world, self._world.memory
        admitted = {admission.queue_id for admission in self._fitter.admissions}
        self._lend_claims()
        # 1. What each shape, and each queue's quota, says for itself; and whose verdict that changes.
        self._shapes = {
            shape_id: self._shape_verdict(shape_id) for shape_id in sorted(world.backlog.queues_of)
        }
        memory.gates.refresh(world.backlog, self._quota, self._fitter.query)
        changed = self._changed_classes()
        # 2. Whoever has places and quota, and was not admitted: on models for which none is left.
        #    And whoever would have them, but for what is kept of both.
        forced = _by_queue(
            each
            for each in blocked
            if self._has_places_and_quota(each) or (each in self._kept_quota and self._is_kept_from(each[1]))
        )
        # 3. The verdicts of each queue of which anything has moved; of all others as they were.
        self._judge(changed, forced)
        view = QueueView(world, self._now, finished=finished, admitted=admitted)
        queues: dict[int, QueueVerdict] = {}
        for queue_id in sorted({*world.configuration.queues, *world.backlog.shapes_in}):
            verdicts = memory.queue_classes.get(queue_id, _NO_CLASSES).by_shape
            kept_view = view.kept(queue_id, verdicts) if queue_id not in holding else None
            if kept_view is not None:
                queues[queue_id] = kept_view
                continue
            if queue_id in emptied:
                verdicts = {key: each for key, each in verdicts.items() if key not in emptied[queue_id]}
            queues[queue_id] = view.verdict(queue_id, verdicts, holding.get(queue_id))
        memory.shown = self._shapes
        kept = (
            kept_numbers(class_id[0], self._kept_quota[class_id], of=class_id[1])
            for class_id in sorted(self._kept_quota)
            if class_id[1] in forced.get(class_id[0], ())
        )
        parts = [*self._parts, *self._quota_parts(), *kept]
        if self._promised:
            parts.append(self._promised.numbers())
        return queues, memory.merged_numbers(parts)

    def _judge(self, changed: Mapping[int, Collection[int]], forced: Mapping[int, frozenset[int]]) -> None:
        """Verdicts of classes, by queue."""
        memory, shapes_in = self._world.memory, self._world.backlog.shapes_in
        known = memory.queue_classes
        for queue_id in [queue_id for queue_id in known if queue_id not in shapes_in]:
            del known[queue_id]
        again = {*changed, *memory.gates.moved, *forced, *(shapes_in.keys() - known.keys())}
        again |= memory.unsure | {queue_id for queue_id, each in known.items() if each.forced}
        for queue_id in sorted(again & shapes_in.keys()):
            known[queue_id] = self._judge_queue(
                queue_id, changed.get(queue_id, ()), forced.get(queue_id, frozenset())
            )
        memory.gates.moved.clear()

    def _quota_parts(self) -> Iterator[Numbers]:
        """Numbers by queue, then those of cohorts."""
        known = self._world.memory.queue_classes
        yield from (each.numbers for each in known.values())
        named = frozenset().union(*(each.named for each in known.values()))
        left = cohort_numbers(self._world.quota, named)
        if left != self._world.memory.left:
            self._world.memory.left = left
        yield self._world.memory.left

    def _lend_claims(self) -> None:
        """What is kept for others is free in the books, and is told so: until the end of the cycle."""
        if self._promised or next(self._claims.all_taken(), None) is not None:
            shape_ids = self._world.backlog.queues_of
            self._fitter.find_misses(shape_ids)
            self._kept_from = frozenset(self._fitter.misses & shape_ids.keys())
            self._kept = {**self._claims.kept_next(), **self._promised.taken}
            self._promised.lend()
            if self._claims.changes:
                self._next = self._find_next(shape_ids)
            self._fitter.note_seatless(shape_ids, is_lent=True)

    def _find_next(self, shape_ids: Collection[int]) -> frozenset[int]:
        """Before anybody has read what all that is lent makes free: most nodes are as they were."""
        fitter = self._fitter
        with nothing_else_kept(self._world, self._kept):
            left = self._kept_from - fitter.find_seatless(shape_ids)
            return frozenset(each for each in left if find_place(self._world, fitter.query(each)))

    def _changed_classes(self) -> dict[int, set[int]]:
        """By queue, those whose shape is told something else than in the last cycle."""
        changed: dict[int, set[int]] = {}
        shown, queues_of = self._world.memory.shown, self._world.backlog.queues_of
        for shape_id, verdict in self._shapes.items():
            if shown.get(shape_id) is not verdict:
                for queue_id in queues_of[shape_id]:
                    changed.setdefault(queue_id, set()).add(shape_id)
        return changed

    def _has_places_and_quota(self, class_id: ClassId) -> bool:
        queue_id, shape_id = class_id
        return not self._shapes[shape_id] and shape_id in self._world.memory.gates.of(queue_id).open

    def _judge_queue(self, queue_id: int, changed: Collection[int], forced: frozenset[int]) -> ClassesMemo:
        """As in the last cycle, but for the classes of which something has changed."""
        memory = self._world.memory
        known, gate = memory.queue_classes.get(queue_id, _NO_CLASSES), memory.gates.of(queue_id)
        is_unsure = known is _NO_CLASSES or queue_id in memory.unsure
        again = {*changed, *gate.changed, *forced, *known.forced}
        if is_unsure:
            again.update(self._world.backlog.shapes_in[queue_id])
        by_shape = known.by_shape
        if again:
            by_shape = self._renewed(queue_id, known.by_shape, again=again, forced=forced)
        gate.changed.clear()
        memory.unsure.discard(queue_id)
        never = known.never
        if is_unsure or by_shape.keys() != known.by_shape.keys():
            never = self._never_numbers(queue_id, by_shape)
        named = self._named(queue_id, forced)
        numbers = {**never, **quota_numbers(self._quota, queue_id, named)}
        return ClassesMemo(by_shape, forced, named, never, numbers)

    def _renewed(
        self, queue_id: int, before: Mapping[int, Verdict], *, again: Collection[int], forced: Collection[int]
    ) -> Mapping[int, Verdict]:
        """`before` if all are equal to those."""
        queue = self._world.configuration.queues.get(queue_id)
        by_shape = {
            shape_id: self._class_verdict(queue, shape_id, is_forced=shape_id in forced)
            if shape_id in again or shape_id not in before
            else before[shape_id]
            for shape_id in self._world.backlog.shapes_in[queue_id]
        }
        return before if before == by_shape else by_shape

    def _never_numbers(self, queue_id: int, shape_ids: Iterable[int]) -> Numbers:
        never, numbers = self._world.memory.never, dict[str, int]()
        for shape_id in shape_ids if queue_id in self._world.configuration.queues else ():
            numbers.update(never[queue_id, shape_id][1])
        return numbers

    def _named(self, queue_id: int, forced: Iterable[int]) -> frozenset[Exceeded]:
        """What of quotas stops anybody in the queue."""
        counts = self._world.memory.gates.of(queue_id).counts
        named = {each for each, count in counts.items() if count}
        for shape_id in forced:
            if not self._shapes[shape_id]:
                named.update(self._lacking_models(queue_id, shape_id))
        return frozenset(named)

    def _class_verdict(self, queue: Queue | None, shape_id: int, *, is_forced: bool) -> Verdict:
        if queue is None:
            return _QUEUE_MISSING
        world, class_id = self._world, (queue.id, shape_id)
        never = self._never(class_id, queue)
        exceeded = world.memory.gates.of(queue.id).exceeded[shape_id]
        shape = self._shapes[shape_id]
        if is_forced and not shape:
            exceeded = self._lacking_models(queue.id, shape_id)
        query = self._fitter.query(shape_id)
        kept = tuple(self._promised.blockers(queue, shape_id, query, exceeded=exceeded))
        if is_forced and class_id in self._kept_quota and not exceeded:
            kept = (*kept, quota_kept(world, queue, query, self._kept_quota[class_id], of=shape_id))
        known = world.memory.classes.get(class_id)
        if known is None or known.shape is not shape or known.exceeded != exceeded:
            merged = self._merge(queue, query, never=never, exceeded=exceeded, shape=shape)
            known = world.memory.classes[class_id] = ClassMemo(shape, exceeded, merged)
        return _ranked((*known.merged, *kept)) if kept else known.merged

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
            told = {blocker.code for blocker in never}
            found.extend(blocker for blocker in shape if blocker.code not in told)
        return _ranked(found)

    def _is_kept_from(self, shape_id: int) -> bool:
        """Whether it has a place, which is kept for others."""
        return {blocker.code for blocker in self._shapes[shape_id]} == {Code.HELD_FOR_CLAIM}

    def _never(self, class_id: ClassId, queue: Queue) -> Verdict:
        known = self._world.memory.never.get(class_id)
        if known is None:
            numbers: dict[str, int] = {}
            shape_id = whole_id(class_id[1])
            never = explain_never(
                self._world.feasibility,
                shape_id,
                shape=self._world.shapes[shape_id],
                tree=self._world.quota,
                queue=queue,
                numbers=numbers,
            )
            known = self._world.memory.never[class_id] = (never, numbers)
            if never:
                self._world.memory.infeasible.setdefault(queue.id, set()).add(class_id[1])
        return known[0]

    def _shape_verdict(self, shape_id: int) -> Verdict:
        """Once in a cycle for all queues; empty if the shape has a place. As in the last cycle, if
        nothing has been taken or freed where it looks, and claims are the same."""
        memory, query = self._world.memory, self._fitter.query(shape_id)
        stamp = None
        if not self._world.capacity.is_in_use and not self._claims.changes:
            stamp = query.grown(), query.shrunk(), self._world.claims_revision
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
        if not self._fitter.would_miss(shape_id, is_lent=True):
            is_kept_from = shape_id in self._kept_from
            if not is_kept_from:
                return ()
            is_next = shape_id in self._next
            return explain_kept(self._world, query, self._claims, kept=self._kept, is_next=is_next)
        found = explain_missing(query) or explain_shortages(query, numbers)
        if found:
            return found
        return explain_scattered(query, self._world.capacity.binding(shape_id, query), numbers)

    def _lacking_models(self, queue_id: int, shape_id: int) -> tuple[Exceeded, ...]:
        """Models of which the queue may not take all that one unit could."""
        query = self._fitter.query(shape_id)
        caps = self._quota.caps(queue_id, query)
        lacking = [model for model in query.models if query.most[model] > caps.get(model, MAX_QUOTA)]
        return self._quota.bounds(queue_id, lacking)


def _ranked(blockers: Iterable[Blocker]) -> Verdict:
    return tuple(sorted(blockers, key=lambda blocker: rank(blocker.code)))


def _by_queue(classes: Iterable[ClassId]) -> dict[int, frozenset[int]]:
    shapes: dict[int, set[int]] = {}
    for queue_id, shape_id in classes:
        shapes.setdefault(queue_id, set()).add(shape_id)
    return {queue_id: frozenset(of_queue) for queue_id, of_queue in shapes.items()}
