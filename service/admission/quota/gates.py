"""For which of its waiting classes a queue has quota left, kept while quota moves.

When what is left of a resource moves from one amount to another, only the classes that need an amount
between the two change sides; they stand sorted by it. So a cycle looks at what changed, not at what waits.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import NamedTuple

from service.admission.nodes.query import ShapeQuery
from service.admission.quota.book import Exceeded, QuotaBook
from service.admission.quota.nodes import QuotaNode
from service.admission.quota.tree import QuotaTree, Reach
from service.admission.waiting.backlog import Backlog

#: A resource, or several models among which a role may choose.
Measure = tuple[str, ...]
_Bound = tuple[object, ...]


class _Level(NamedTuple):
    """What is left by one measure: who needs no more than `low` has it, who needs more than `high` has it
    not; between them more than the sum decides. `bounds` name what binds."""

    low: float
    high: float
    bounds: _Bound


_UNBOUNDED = _Level(inf, inf, ())


class _Watch(NamedTuple):
    """A resource of which the cohort bounds the queue: no answer changes while what is left there for its
    members is at least `low` and below `high`, and is bounded by the same."""

    resource: str
    low: float
    high: float
    bound: _Bound


class Gate:
    """One queue. `exceeded`: by shape, the resources of which it has too little left; `open`: shapes for
    which there are none; `counts`: how many classes each of them stops. `changed` collects shapes whose
    answer changed, or that came or went, until somebody takes note of it."""

    def __init__(self, queue_id: int) -> None:
        self.exceeded: dict[int, tuple[Exceeded, ...]] = {}
        self.open: set[int] = set()
        self.counts: Counter[Exceeded] = Counter()
        self.changed: set[int] = set()
        #: Counts these changes.
        self.answers = 0
        self._queue_id = queue_id
        #: Which shapes waited, what the queue held, and what its tree held when the gate was last right.
        self._classes = self._own = self._tree = -1
        self._held: Mapping[str, int] = {}
        self._usage: Mapping[str, int] = {}
        self._watches: tuple[_Watch, ...] = ()
        self._needs: dict[Measure, list[tuple[int, int]]] = {}
        self._levels: dict[Measure, _Level] = {}
        #: Shapes with several roles that may choose: looked at whenever anything has moved.
        self._others: dict[int, ShapeQuery] = {}

    def is_right(self, node: QuotaNode, classes: int, tree: QuotaTree) -> bool:
        """Whether the queue at `node` has what it had, and what has moved in its cohort changes no answer."""
        if classes != self._classes:
            return False
        if node.revision != self._own:
            if node.held != self._held or node.usage != self._usage:
                return False
            # What a cycle took, and gave back, was committed.
            self._own = node.revision
        if node.root.revision != self._tree:
            for resource, low, high, bound in self._watches:
                assert node.parent is not None
                room = tree.room_in(node.parent, resource)
                if not low <= room.amount < high or bound != (room.code, room.cohort_id):
                    return False
            self._tree = node.root.revision
        return True

    def refresh(
        self,
        node: QuotaNode,
        classes: int,
        shape_ids: Iterable[int],
        *,
        book: QuotaBook,
        query_of: Callable[[int], ShapeQuery],
    ) -> None:
        """As quota is now. `classes` counts the changes of which shapes wait."""
        affected: set[int] = set()
        # 1. Classes that came and went.
        if classes != self._classes:
            now = set(shape_ids)
            for shape_id in self.exceeded.keys() - now:
                self._drop(shape_id, query_of(shape_id))
            affected = now - self.exceeded.keys()
            for shape_id in affected:
                self._add(shape_id, query_of(shape_id))
        # 2. Those that changed sides.
        for measure, needs in self._needs.items():
            before = self._levels.get(measure)
            if before is not None and before.low == inf:
                # What nothing bounds stays so, with these queues.
                continue
            level = self._level(measure, book)
            if level != before:
                self._levels[measure] = level
                affected.update(_between(needs, before, level) if before is not None else ())
        # 3. What they lack now.
        for shape_id in (*affected, *(each for each in self._others if each not in affected)):
            self._answer(shape_id, book.exceeded_with(self._queue_id, query_of(shape_id)))
        # 4. Until when all that holds.
        self._classes, self._own, self._tree = classes, node.revision, node.root.revision
        self._held, self._usage = node.held.copy(), node.usage.copy()
        self._watches = tuple(self._watch(book.tree, node)) if node.parent is not None else ()

    def needing_more(self, amounts: Mapping[str, int]) -> set[int]:
        """Shapes that may need more than this of some resource."""
        found = set(self._others)
        for measure, needs in self._needs.items():
            least = min((amounts[each] for each in measure if each in amounts), default=None)
            if least is not None:
                found.update(shape_id for _, shape_id in needs[bisect_right(needs, (least, inf)) :])
        return found

    def _watch(self, tree: QuotaTree, node: QuotaNode) -> Iterator[_Watch]:
        measures: list[tuple[Measure, list[tuple[int, int]] | None]] = [*self._needs.items()]
        measures.extend((tuple(query.most), None) for query in self._others.values())
        for measure, needs in measures:
            for resource in measure:
                reach = tree.reach(self._queue_id, resource)
                if reach is None or node.parent is None:
                    continue
                room = tree.room_in(node.parent, resource)
                low, high = _steady(room.amount, reach, needs if len(measure) == 1 else None)
                yield _Watch(resource, low, high, (room.code, room.cohort_id))

    def _answer(self, shape_id: int, exceeded: tuple[Exceeded, ...]) -> None:
        before = self.exceeded.get(shape_id)
        if before == exceeded:
            return
        self.counts.subtract(before or ())
        self.counts.update(exceeded)
        self.exceeded[shape_id] = exceeded
        self.changed.add(shape_id)
        self.answers += 1
        (self.open.discard if exceeded else self.open.add)(shape_id)

    def _add(self, shape_id: int, query: ShapeQuery) -> None:
        measures = _measures(query)
        if measures is None:
            self._others[shape_id] = query
        for measure, need in measures or ():
            insort(self._needs.setdefault(measure, []), (need, shape_id))

    def _drop(self, shape_id: int, query: ShapeQuery) -> None:
        self.counts.subtract(self.exceeded.pop(shape_id))
        self.open.discard(shape_id)
        self.changed.add(shape_id)
        self.answers += 1
        self._others.pop(shape_id, None)
        for measure, need in _measures(query) or ():
            needs = self._needs[measure]
            del needs[bisect_left(needs, (need, shape_id))]
            if not needs:
                del self._needs[measure], self._levels[measure]

    def _level(self, measure: Measure, book: QuotaBook) -> _Level:
        if len(measure) == 1:
            room = book.room(self._queue_id, measure[0])
            if room is None:
                return _UNBOUNDED
            return _Level(room.amount, room.amount, (room.code, room.cohort_id, room.of))
        rooms = [book.room(self._queue_id, resource) for resource in measure]
        amounts = [inf if room is None else room.amount for room in rooms]
        bounds = tuple((room.code, room.cohort_id, room.of) if room is not None else None for room in rooms)
        return _Level(max(amounts), sum(amounts), bounds)


class Gates:
    """All queues in which something waits. `moved` collects those whose answers were looked at again, until
    somebody takes note of it."""

    def __init__(self) -> None:
        self._gates: dict[int, Gate] = {}
        self.moved: set[int] = set()

    def forget(self, queue_ids: Iterable[int]) -> None:
        """Of these queues all is found out again."""
        for queue_id in queue_ids:
            self._gates.pop(queue_id, None)

    def refresh(self, backlog: Backlog, book: QuotaBook, query_of: Callable[[int], ShapeQuery]) -> None:
        """As quota is now."""
        for queue_id in self._gates.keys() - backlog.shapes_in.keys():
            del self._gates[queue_id]
        for queue_id in backlog.shapes_in:
            self.fresh(queue_id, backlog, book, query_of)

    def fresh(
        self, queue_id: int, backlog: Backlog, book: QuotaBook, query_of: Callable[[int], ShapeQuery]
    ) -> Gate:
        """The queue's gate, as quota is now."""
        gate, node = self.of(queue_id), book.tree.queues.get(queue_id)
        if node is not None:
            classes = backlog.class_revisions[queue_id]
            if not gate.is_right(node, classes, book.tree):
                shape_ids = backlog.shapes_in[queue_id]
                gate.refresh(node, classes, shape_ids, book=book, query_of=query_of)
                self.moved.add(queue_id)
        return gate

    def of(self, queue_id: int) -> Gate:
        gate = self._gates.get(queue_id)
        if gate is None:
            gate = self._gates[queue_id] = Gate(queue_id)
        return gate


def _steady(left: int, reach: Reach, needs: list[tuple[int, int]] | None) -> tuple[float, float]:
    """Between which amounts that are left in the cohort the queue's answers are those of `left`: for sorted
    needs of one resource; None: for more than that."""
    own, most = reach
    if left >= most:
        return most, inf
    if needs is None:
        return left, left + 1
    at = bisect_right(needs, (own + left, inf))
    if at < len(needs) and own:
        # Somebody is told how much that is together.
        return left, left + 1
    low = needs[at - 1][0] - own if at else -inf
    return low, min(most, needs[at][0] - own if at < len(needs) else inf)


def _between(needs: list[tuple[int, int]], before: _Level, after: _Level) -> Iterator[int]:
    """Shapes that may have changed sides, or are stopped by something else than before."""
    first = bisect_right(needs, (min(before.low, after.low), inf))
    last = len(needs)
    if before.bounds == after.bounds:
        last = bisect_right(needs, (max(before.high, after.high), inf))
    return (shape_id for _, shape_id in needs[first:last])


def _measures(query: ShapeQuery) -> list[tuple[Measure, int]] | None:
    """What decides whether quota suffices, and the amount; None if that is more than a comparison."""
    with_gpus = [role for role in query.roles if role.requests.gpus]
    others: list[tuple[Measure, int]] = [
        ((resource,), need) for resource, need in query.most.items() if resource not in query.models
    ]
    if all(len(role.models) == 1 for role in with_gpus):
        return [*others, *(((model,), query.most[model]) for model in query.models)]
    if len(with_gpus) == 1 and not with_gpus[0].models:
        return others
    if len(with_gpus) == 1:
        return [*others, (tuple(sorted(with_gpus[0].models)), with_gpus[0].whole.gpus)]
    return None
