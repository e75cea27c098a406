"""In which order waiting rows are considered: the heads of all classes in one heap, by priority,
submission, group and index.

Fair share would choose the queue first and then its best class; only `Heads.pop` would change.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from heapq import heapify, heappop, heappush

from service.admission.backlog import Backlog, ClassId, Key
from service.admission.eligibility import is_eligible, is_open
from service.admission.world import Configuration, PendingUnit


class Head:
    """A class and its best row that has not been considered yet."""

    __slots__ = ("_rows", "class_id", "key", "row")
    key: Key
    row: PendingUnit

    def __init__(self, class_id: ClassId, rows: Iterator[tuple[Key, PendingUnit]]) -> None:
        self.class_id = class_id
        self._rows = rows

    def advance(self) -> bool:
        """Go on to the class's next eligible row; False if there is none."""
        following = next(self._rows, None)
        if following is None:
            return False
        self.key, self.row = following
        return True

    def __lt__(self, other: Head) -> bool:
        return self.key < other.key


class Heads:
    """Class heads of all open queues, best first."""

    def __init__(self, backlog: Backlog, configuration: Configuration, now: datetime) -> None:
        self._heap: list[Head] = []
        for class_id, keys in backlog.classes.items():
            if is_open(configuration.queues.get(class_id[0])):
                head = Head(class_id, _eligible(backlog, keys, now))
                if head.advance():
                    self._heap.append(head)
        heapify(self._heap)

    def pop(self) -> Head | None:
        return heappop(self._heap) if self._heap else None

    def push_next(self, head: Head) -> None:
        """After its row was admitted the class stands again, with its next row."""
        if head.advance():
            heappush(self._heap, head)


def _eligible(backlog: Backlog, keys: list[Key], now: datetime) -> Iterator[tuple[Key, PendingUnit]]:
    for key in keys:
        row = backlog.rows[key[4]]
        if is_eligible(row, now):
            yield key, row
