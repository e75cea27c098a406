"""The next row of one queue: the best of the heads of its classes.

Classes that are known not to fit are passed over without being looked at, unless somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from heapq import heapify, heappop, heappush
from typing import NamedTuple, Protocol

from service.admission.backlog import Backlog, ClassId
from service.admission.line import Key


class Candidate(NamedTuple):
    """A row at `position` of its class. `may_borrow`: it was tried within the nominal quota. Keys are
    unique, so that candidates compare by them alone."""

    key: Key
    class_id: ClassId
    position: int
    may_borrow: bool = False


class Onlooker(Protocol):
    """Somebody who wants to see blocked heads too, also those that are known not to fit: no place, or no
    quota. Asked again and again, so that the answers may become False as heads are seen."""

    def wants_any_of(self, queue_id: int) -> bool: ...

    def wants(self, class_id: ClassId) -> bool: ...


class Front(Protocol):
    """Rows of one queue in their order, as far as they are to be tried."""

    def peek(self) -> Candidate | None: ...

    def pop(self) -> Candidate: ...

    def push(self, candidate: Candidate) -> None:
        """The same row again."""

    def push_next(self, candidate: Candidate) -> None:
        """The row after it in its class."""


class ClassFront:
    """Of a best_effort queue. `shape_ids`: what may fit; `takes_part` says so of a row."""

    def __init__(
        self,
        backlog: Backlog,
        queue_id: int,
        *,
        shape_ids: Collection[int],
        takes_part: Callable[[Key], bool],
        onlooker: Onlooker | None,
    ) -> None:
        self._backlog = backlog
        self._queue_id = queue_id
        self._shape_ids = shape_ids
        self._takes_part = takes_part
        self._onlooker = onlooker
        self._seen = 0
        self._heap: list[Candidate] = []
        for shape_id in shape_ids:
            self._push_from((queue_id, shape_id), 0)
        heapify(self._heap)

    def peek(self) -> Candidate | None:
        if self._onlooker is not None and self._onlooker.wants_any_of(self._queue_id):
            self._take_in_hopeless(self._onlooker)
        while self._heap and not self._is_tried(self._heap[0]):
            heappop(self._heap)
        return self._heap[0] if self._heap else None

    def pop(self) -> Candidate:
        return heappop(self._heap)

    def push(self, candidate: Candidate) -> None:
        heappush(self._heap, candidate)

    def push_next(self, candidate: Candidate) -> None:
        self._push_from(candidate.class_id, candidate.position + 1)

    def _take_in_hopeless(self, onlooker: Onlooker) -> None:
        """Heads of classes that do not fit, as far as they come before what may fit."""
        heads = self._backlog.heads_in.get(self._queue_id, [])
        while self._seen < len(heads) and not (self._heap and self._heap[0].key < heads[self._seen]):
            key = heads[self._seen]
            self._seen += 1
            class_id = self._queue_id, key[5]
            if key[5] not in self._shape_ids and onlooker.wants(class_id):
                self._push_from(class_id, 0)

    def _is_tried(self, candidate: Candidate) -> bool:
        """A hopeless one that nobody wants any more is not."""
        if candidate.class_id[1] in self._shape_ids:
            return True
        return self._onlooker is not None and self._onlooker.wants(candidate.class_id)

    def _push_from(self, class_id: ClassId, position: int) -> None:
        keys = self._backlog.classes[class_id]
        for index in range(position, len(keys)):
            if self._takes_part(keys[index]):
                heappush(self._heap, Candidate(keys[index], class_id, index))
                return


class LineFront:
    """Of a strict queue: row by row, whatever is known of them, for whoever stands first blocks it."""

    def __init__(self, backlog: Backlog, queue_id: int, *, takes_part: Callable[[Key], bool]) -> None:
        line = backlog.lines.get(queue_id)
        keys: Iterable[Key] = line.keys if line is not None else ()
        self._queue_id = queue_id
        self._rest = (key for key in keys if takes_part(key))
        self._next: list[Candidate] = []

    def peek(self) -> Candidate | None:
        if not self._next:
            for key in self._rest:
                self.push(Candidate(key, (self._queue_id, key[5]), 0))
                break
        return self._next[-1] if self._next else None

    def pop(self) -> Candidate:
        return self._next.pop()

    def push(self, candidate: Candidate) -> None:
        self._next.append(candidate)

    def push_next(self, candidate: Candidate) -> None:
        """The line goes on by itself."""
