"""In which order waiting rows are considered: the heads of all classes in one heap, by priority,
submission, group and index.

Fair share would choose the queue first and then its best class; only `Heads.pop` would change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from heapq import heapify, heappop, heappush

from service.admission.backlog import Backlog, ClassId
from service.admission.eligibility import is_eligible, is_open
from service.admission.line import Key
from service.admission.world import Configuration, Queue
from service.domain.queue import Order

#: A class's best row that has not been considered yet, and its position in the class. Keys are
#: unique, so heads compare by them alone.
Head = tuple[Key, ClassId, int]


class Heads:
    """Class heads of all open queues, best first; rows `without` are passed over. Of `hopeless` shapes,
    known to find no place, only those are heads that could block their queue."""

    def __init__(
        self,
        backlog: Backlog,
        configuration: Configuration,
        *,
        now: datetime,
        without: Collection[int],
        hopeless: Collection[int] = frozenset(),
    ) -> None:
        self._backlog = backlog
        self._now = now
        self._without = without
        heads = (self._first(class_id) for class_id in _classes(backlog, configuration.queues, hopeless))
        self._heap = [head for head in heads if head is not None]
        heapify(self._heap)

    def pop(self) -> Head | None:
        return heappop(self._heap) if self._heap else None

    def push_next(self, head: Head) -> None:
        """After its row was admitted the class stands again, with its next eligible row."""
        _, class_id, position = head
        following = self._next(class_id, position + 1)
        if following is not None:
            heappush(self._heap, following)

    def _first(self, class_id: ClassId) -> Head | None:
        key = self._backlog.classes[class_id][0]
        return (key, class_id, 0) if key[6] and not self._without else self._next(class_id, 0)

    def _next(self, class_id: ClassId, position: int) -> Head | None:
        keys, rows = self._backlog.classes[class_id], self._backlog.rows
        for index in range(position, len(keys)):
            unit_id = keys[index][4]
            if is_eligible(rows[unit_id], self._now) and unit_id not in self._without:
                return keys[index], class_id, index
        return None


def _classes(backlog: Backlog, queues: Mapping[int, Queue], hopeless: Collection[int]) -> Iterator[ClassId]:
    """Every class of an open queue that has to be tried."""
    for shape_id, queue_ids in backlog.queues_of.items():
        if shape_id not in hopeless:
            yield from ((queue_id, shape_id) for queue_id in queue_ids if is_open(queues.get(queue_id)))
    for queue in queues.values() if hopeless else ():
        if queue.order is Order.STRICT and is_open(queue):
            shape_ids = backlog.shapes_in.get(queue.id, ())
            yield from ((queue.id, shape_id) for shape_id in shape_ids if shape_id in hopeless)
