"""In which order waiting rows are considered: the heads of all classes in one heap, by priority,
submission, group and index.

Fair share would choose the queue first and then its best class; only `Heads.pop` would change.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from heapq import heapify, heappop, heappush

from service.admission.backlog import Backlog, ClassId, Key
from service.admission.eligibility import is_eligible, is_open
from service.admission.world import Configuration

#: A class's best row that has not been considered yet, and its position in the class. Keys are
#: unique, so heads compare by them alone.
Head = tuple[Key, ClassId, int]


class Heads:
    """Class heads of all open queues, best first; rows `without` are passed over."""

    def __init__(
        self, backlog: Backlog, configuration: Configuration, *, now: datetime, without: Collection[int]
    ) -> None:
        self._backlog = backlog
        self._now = now
        self._without = without
        open_queues = {queue.id for queue in configuration.queues.values() if is_open(queue)}
        heads = (
            (keys[0], class_id, 0) if keys[0][6] and not without else self._next(class_id, 0)
            for class_id, keys in backlog.classes.items()
            if class_id[0] in open_queues
        )
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

    def _next(self, class_id: ClassId, position: int) -> Head | None:
        keys, rows = self._backlog.classes[class_id], self._backlog.rows
        for index in range(position, len(keys)):
            unit_id = keys[index][4]
            if is_eligible(rows[unit_id], self._now) and unit_id not in self._without:
                return keys[index], class_id, index
        return None
