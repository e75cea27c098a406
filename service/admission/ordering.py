"""In which order waiting rows are considered: the queue whose turn it is, and its best row."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import NamedTuple

from service.admission.backlog import ClassId
from service.admission.eligibility import is_eligible, is_open
from service.admission.fit import Fitter
from service.admission.front import Candidate, ClassFront, Front, LineFront, Onlooker
from service.admission.line import Key
from service.admission.openings import Openings
from service.admission.resident import World
from service.admission.tournament import Extra, Tournament, must_borrow
from service.admission.world import PendingUnit, Queue
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
    """Rows of all open queues in turn, as far as they may fit; rows `without` are passed over, and those
    whose owner or group may not hold more.

    Where no quota is left, and of shapes that are known to find no place, only those are heads that could
    block their queue, and those that the onlooker wants to see. `extra`: what counts for shares besides what
    is held.
    """

    def __init__(
        self,
        world: World,
        fitter: Fitter,
        *,
        now: datetime,
        openings: Openings,
        without: Collection[int] = frozenset(),
        onlooker: Onlooker | None = None,
        extra: Extra | None = None,
    ) -> None:
        self._world = world
        self._backlog = world.backlog
        self._fitter = fitter
        self._now = now
        self._openings = openings
        self._without = without
        self._onlooker = onlooker
        self._tournament = Tournament(world.quota, lambda runner: fitter.query(runner.key[5]), extra or {})
        self._fronts: dict[int, Front] = {}
        #: The queue whose next row has not been entered yet.
        self._moved: int | None = None
        for queue_id in sorted(world.backlog.shapes_in):
            queue = world.configuration.queues.get(queue_id)
            if queue is not None and is_open(queue) and self._may_have_heads(queue):
                self._open(queue)
        rows = {queue_id: self._next(queue_id) for queue_id in self._fronts}
        self._tournament.start({queue_id: row for queue_id, row in rows.items() if row is not None})

    def pop(self) -> Head | None:
        """The next row to consider. What becomes of it is told by `go_on` or `push_next`; else it, and its
        class with it, is blocked."""
        while True:
            if self._moved is not None:
                self._tournament.enter(self._moved, self._next(self._moved))
            queue_id = self._moved = self._tournament.first()
            if queue_id is None:
                return None
            # What was taken since the row was entered may have left nothing for it.
            if self._next(queue_id) == self._tournament.runner:
                return self._head(queue_id, self._fronts[queue_id].pop())

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

    def push_next_of(self, head: Head, wanted: Callable[[PendingUnit], bool]) -> None:
        """The next row of its class that takes part and is wanted is considered, whatever became of this
        one."""
        candidate = Candidate(head.key, head.class_id, head.position)
        self._fronts[head.class_id[0]].push_next(candidate, lambda key: wanted(self._backlog.rows[key[4]]))

    def push_next(self, head: Head) -> None:
        """The next row of its class that takes part is considered, whatever became of this one."""
        self._fronts[head.class_id[0]].push_next(Candidate(head.key, head.class_id, head.position))

    def close(self, queue_id: int) -> None:
        """Nothing more of this queue is considered."""
        del self._fronts[queue_id]
        self._tournament.enter(queue_id, None)
        self._moved = None

    def _may_have_heads(self, queue: Queue) -> bool:
        """Most queues have nobody for whom there is anything, and are not looked at any closer."""
        if queue.order is Order.STRICT or self._openings.has_room(queue.id):
            return True
        return self._onlooker is not None and self._onlooker.wants_any_of(queue.id)

    def _open(self, queue: Queue) -> None:
        if queue.order is Order.STRICT:
            self._fronts[queue.id] = LineFront(self._backlog, queue.id, takes_part=self._takes_part)
            return
        fitter, fitting = self._fitter, self._openings.fitting(queue.id)
        self._fronts[queue.id] = ClassFront(
            self._backlog,
            queue.id,
            fits=lambda shape_id: (
                shape_id in fitting
                and shape_id not in fitter.misses
                and fitter.quota.has_room(queue.id, fitter.query(shape_id))
            ),
            takes_part=self._takes_part,
            onlooker=self._onlooker,
        )

    def _next(self, queue_id: int) -> Candidate | None:
        """The queue's next row, as far as is known now."""
        return self._fronts[queue_id].peek()

    def _head(self, queue_id: int, candidate: Candidate) -> Head:
        row, node = self._backlog.rows[candidate.key[4]], self._world.quota.queues[queue_id]
        query = self._fitter.query(row.shape_id)
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
        if not is_in or unit_id in self._without:
            return False
        return not self._fitter.limits.is_over(self._backlog.rows[unit_id])
