"""In which order waiting rows are considered: the queue whose turn it is, and its best row."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import NamedTuple

from service.admission.backlog import Backlog, ClassId
from service.admission.eligibility import is_eligible, is_open
from service.admission.front import Candidate, ClassFront, Front, LineFront, Onlooker
from service.admission.line import Key
from service.admission.query import ShapeQuery
from service.admission.resident import World
from service.admission.tournament import Extra, Tournament, must_borrow
from service.domain.queue import Order


class Head(NamedTuple):
    """A row whose turn it is. `most`: how many members of a range it may take before it is another's turn.
    `is_within`: it has a choice of models, and is tried first with what its queue has of its own."""

    key: Key
    class_id: ClassId
    position: int
    most: int
    is_within: bool


class Heads:
    """Rows of all open queues in turn, as far as they may fit; rows `without` are passed over. Of
    `hopeless` shapes, known to find no place, only those are heads that could block their queue, and those
    that the onlooker wants to see. `extra`: what counts for shares besides what is held."""

    def __init__(
        self,
        world: World,
        *,
        query_of: Callable[[int], ShapeQuery],
        now: datetime,
        without: Collection[int] = frozenset(),
        hopeless: Collection[int] = frozenset(),
        onlooker: Onlooker | None = None,
        extra: Extra | None = None,
    ) -> None:
        backlog = self._backlog = world.backlog
        tree = self._tree = world.quota
        self._query_of = query_of
        self._now = now
        self._without = without
        self._tournament = Tournament(tree, lambda runner: query_of(runner.key[5]), extra or {})
        self._fronts: dict[int, Front] = {}
        #: The queue whose next row has not been entered yet.
        self._moved: int | None = None
        candidates = _candidates(backlog, hopeless)
        for queue in sorted(world.configuration.queues.values(), key=lambda queue: queue.id):
            if not is_open(queue) or queue.id not in backlog.shapes_in:
                continue
            if queue.order is Order.STRICT:
                self._fronts[queue.id] = LineFront(backlog, queue.id, takes_part=self._takes_part)
            elif queue.id in candidates or onlooker is not None:
                self._fronts[queue.id] = ClassFront(
                    backlog,
                    queue.id,
                    shape_ids=candidates.get(queue.id, frozenset()),
                    takes_part=self._takes_part,
                    onlooker=onlooker,
                )
        for queue_id, front in self._fronts.items():
            self._tournament.enter(queue_id, front.peek())

    def pop(self) -> Head | None:
        """The next row to consider. What becomes of it is told by `go_on` or `push_next`; else it, and its
        class with it, is blocked."""
        if self._moved is not None:
            self._tournament.enter(self._moved, self._fronts[self._moved].peek())
        self._moved = self._tournament.first()
        return None if self._moved is None else self._head(self._moved)

    def go_on(self, head: Head, *, placed: int, left: int) -> bool:
        """The row was tried: so many of its members were placed and so many still wait. False if it is
        blocked, and its class with it."""
        front, candidate = self._fronts[head.class_id[0]], Candidate(head.key, head.class_id, head.position)
        if not left:
            front.push_next(candidate)
        elif placed == head.most:
            front.push(candidate)
        elif head.is_within:
            front.push(candidate._replace(may_borrow=True))
        else:
            return False
        return True

    def push_next(self, head: Head) -> None:
        """The next row of its class that takes part is considered, whatever became of this one."""
        self._fronts[head.class_id[0]].push_next(Candidate(head.key, head.class_id, head.position))

    def close(self, queue_id: int) -> None:
        """Nothing more of this queue is considered."""
        del self._fronts[queue_id]
        self._tournament.enter(queue_id, None)
        self._moved = None

    def _head(self, queue_id: int) -> Head:
        candidate = self._fronts[queue_id].pop()
        row, node = self._backlog.rows[candidate.key[4]], self._tree.queues[queue_id]
        query = self._query_of(row.shape_id)
        count = 1 if query.shape.is_gang else row.last_index - row.first_index + 1
        has_choice = node.parent is not None and any(len(role.models) > 1 for role in query.roles)
        return Head(
            candidate.key,
            candidate.class_id,
            candidate.position,
            most=count if count == 1 else self._tournament.turns(queue_id, count),
            is_within=has_choice and not candidate.may_borrow and not must_borrow(node, query),
        )

    def _takes_part(self, key: Key) -> bool:
        unit_id = key[4]
        is_in = key[6] or is_eligible(self._backlog.rows[unit_id], self._now)
        return is_in and unit_id not in self._without


def _candidates(backlog: Backlog, hopeless: Collection[int]) -> dict[int, set[int]]:
    """By queue, the shapes that may find a place."""
    found: dict[int, set[int]] = {}
    for shape_id, queue_ids in backlog.queues_of.items():
        if shape_id not in hopeless:
            for queue_id in queue_ids:
                found.setdefault(queue_id, set()).add(shape_id)
    return found
