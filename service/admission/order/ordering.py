"""In which order waiting rows are considered: the queue whose turn it is, and its best row."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import NamedTuple

from service.admission.fit import Fitter
from service.admission.order.openings import Openings
from service.admission.order.tournament import Extra, Tournament, must_borrow
from service.admission.resident import World
from service.admission.waiting.backlog import ClassId
from service.admission.waiting.eligibility import is_eligible, is_open
from service.admission.waiting.front import Candidate, ClassFront, Front, Guess, LineFront, Onlooker
from service.admission.waiting.line import Key
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
        #: How much had changed when somebody was asked last, and of which queues the onlooker wanted nobody.
        self._seen = self._changes()
        self._unwanted: set[int] = set()
        self._tournament = Tournament(
            world.quota,
            next_of=self._next,
            is_next=self._is_next,
            changes_of=self._see_changes,
            query_of=lambda runner: fitter.query(runner.key[5]),
            is_over=openings.is_closed,
            offering=self._offering,
            extra=extra or {},
        )
        #: None: nothing more of the queue is considered.
        self._fronts: dict[int, Front | None] = {}
        #: The queue whose turn it was, and that has not been asked again yet.
        self._moved: int | None = None
        queues, heads_in = world.configuration.queues, world.backlog.heads_in
        offering = self._offering([each for each in heads_in if is_open(queues.get(each))])
        self._tournament.start(
            {
                queue_id: self._guess(queue_id, heads[0])
                for queue_id, heads in heads_in.items()
                if queue_id in offering
            },
            known=world.memory.ranks,
        )

    def pop(self) -> Head | None:
        """The next row to consider. What becomes of it is told by `go_on` or `push_next`; else it, and its
        class with it, is blocked."""
        if self._moved is not None:
            self._tournament.move(self._moved)
        queue_id = self._moved = self._tournament.first()
        return None if queue_id is None else self._head(queue_id, self._front(queue_id).pop())

    def go_on(self, head: Head, *, placed: int, left: int) -> bool:
        """The row was tried: so many of its members were placed and so many still wait. False if it is
        blocked, and its class with it."""
        front, candidate = self._front(head.class_id[0]), Candidate(head.key, head.class_id, head.position)
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
        self._front(head.class_id[0]).push_next(candidate, lambda key: wanted(self._backlog.rows[key[4]]))

    def push_next(self, head: Head) -> None:
        """The next row of its class that takes part is considered, whatever became of this one."""
        self._front(head.class_id[0]).push_next(Candidate(head.key, head.class_id, head.position))

    def close(self, queue_id: int) -> None:
        """Nothing more of this queue is considered."""
        self._fronts[queue_id] = None

    def end(self) -> None:
        """Nothing more is considered of any queue."""
        self._tournament.end()
        self._fronts.clear()
        del self._tournament

    def _offering(self, queue_ids: Collection[int]) -> set[int]:
        """Those of these queues that may have heads."""
        queues = self._world.configuration.queues
        found = {each for each in queue_ids if queues[each].order is Order.STRICT}
        found.update(each for each in self._openings.open_among(queue_ids) if self._openings.has_room(each))
        if self._onlooker is not None:
            others = [each for each in queue_ids if each not in found and each not in self._unwanted]
            wanted = self._onlooker.wanted_among(others)
            self._unwanted.update(each for each in others if each not in wanted)
            found |= wanted
        return found

    def _may_have_heads(self, queue: Queue) -> bool:
        """Most queues have nobody for whom there is anything, and are not looked at any closer."""
        if queue.order is Order.STRICT or self._openings.has_room(queue.id):
            return True
        if self._onlooker is None or queue.id in self._unwanted:
            return False
        if not self._onlooker.wants_any_of(queue.id):
            self._unwanted.add(queue.id)
            return False
        return True

    def _guess(self, queue_id: int, key: Key) -> Guess:
        """With the key of its first row, and what everybody needs who waits in the queue."""
        revision, known = self._backlog.class_revisions[queue_id], self._world.memory.guesses.get(queue_id)
        if known is not None and known[0] == revision:
            if known[1].key is key:
                return known[1]
            needs = known[1].needs
        else:
            mosts = [self._fitter.query(shape_id).most for shape_id in self._backlog.shapes_in[queue_id]]
            least = {name: min(most.get(name, 0) for most in mosts) for name in mosts[0]}
            needs = {name: need for name, need in least.items() if need}
        guess = Guess(key, needs)
        self._world.memory.guesses[queue_id] = revision, guess
        return guess

    def _next(self, queue_id: int) -> Candidate | None:
        """The queue's next row, as far as is known now."""
        if queue_id not in self._fronts:
            queue = self._world.configuration.queues[queue_id]
            if not self._may_have_heads(queue):
                return None
            self._fronts[queue_id] = self._open(queue)
        front = self._fronts[queue_id]
        return None if front is None else front.peek()

    def _is_next(self, queue_id: int) -> bool:
        """Whether the row that was the queue's next one is it still, for all that was taken since."""
        front = self._fronts[queue_id]
        return front is not None and front.is_next()

    def _see_changes(self) -> int:
        changes = self._changes()
        if changes != self._seen:
            self._seen = changes
            self._unwanted.clear()
        return changes

    def _changes(self) -> int:
        """Counts what may change next rows besides quota: shapes that find no place, and what others want."""
        return len(self._fitter.misses) + (0 if self._onlooker is None else self._onlooker.changes)

    def _front(self, queue_id: int) -> Front:
        front = self._fronts[queue_id]
        assert front is not None
        return front

    def _open(self, queue: Queue) -> Front:
        if queue.order is Order.STRICT:
            return LineFront(self._backlog, queue.id, takes_part=self._takes_part)
        return ClassFront(
            self._backlog,
            queue.id,
            fits=lambda shape_id: self._openings.fits(queue.id, shape_id),
            takes_part=self._takes_part,
            onlooker=self._onlooker,
        )

    def _head(self, queue_id: int, candidate: Candidate) -> Head:
        row, node = self._backlog.rows[candidate.key[4]], self._world.quota.queues[queue_id]
        query = self._fitter.query(row.shape_id)
        count = 1 if query.shape.is_gang else row.last_index - row.first_index + 1
        has_choice = query.has_choice and node.parent is not None
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
        # Rows are looked at only where something may be in their way.
        limits = self._fitter.limits
        return not limits.has_any or not limits.is_over(self._backlog.rows[unit_id])
