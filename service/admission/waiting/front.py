"""The next row of one queue: the best of the heads of its classes.

Classes that are known not to fit are passed over, unless somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import heappop, heappush
from typing import NamedTuple, Protocol

from service.admission.waiting.backlog import Backlog, ClassId
from service.admission.waiting.line import Key


class Candidate(NamedTuple):
    """A row at `position` of its class. `may_borrow`: it was tried within the nominal quota. Keys are
    unique, so that candidates compare by them alone."""

    key: Key
    class_id: ClassId
    position: int
    may_borrow: bool = False


class Guess(NamedTuple):
    """What is known of a queue's next row before it is asked for: it is not before `key`, and needs at least
    so much of each resource."""

    key: Key
    needs: Mapping[str, int]


class Onlooker(Protocol):
    """Somebody who wants to see blocked heads too, also those that are known not to fit: no place, or no
    quota. Asked again and again, so that the answers may become False as heads are seen; `changes` counts
    what may change them, besides what is taken of quota and places."""

    @property
    def changes(self) -> int: ...

    def wants_any_of(self, queue_id: int) -> bool: ...

    def wanted_among(self, queue_ids: Collection[int]) -> set[int]:
        """The queues of which it wants any: the same for many at once."""

    def wants(self, class_id: ClassId) -> bool: ...


class Front(Protocol):
    """Rows of one queue in their order, as far as they are to be tried."""

    def peek(self) -> Candidate | None: ...

    def is_next(self) -> bool:
        """Whether `peek` would give what it gave last, if nothing has been taken since but quota. False: that
        is to be seen."""

    def pop(self) -> Candidate: ...

    def push(self, candidate: Candidate) -> None:
        """The same row again."""

    def push_next(self, candidate: Candidate, wanted: Callable[[Key], bool] | None = None) -> None:
        """The next row after it in its class, of those that are wanted."""


class ClassFront:
    """Of a best_effort queue: the heads of its classes in their order. `fits`: shapes that may fit, as far as
    is known when it is asked; `takes_part` says so of a row."""

    def __init__(
        self,
        backlog: Backlog,
        queue_id: int,
        *,
        fits: Callable[[int], bool],
        takes_part: Callable[[Key], bool],
        onlooker: Onlooker | None,
    ) -> None:
        self._classes = backlog.classes
        self._heads = backlog.heads_in[queue_id]
        self._queue_id = queue_id
        self._fits = fits
        self._takes_part = takes_part
        self._onlooker = onlooker
        #: Whether the onlooker may want any of them, once it was asked.
        self._is_watched: bool | None = None
        #: How many of the heads have been looked at, and what of their classes is to be tried.
        self._seen = 0
        self._heap: list[Candidate] = []

    def peek(self) -> Candidate | None:
        self._is_watched = None
        while self._heap and not self._is_tried(self._heap[0].class_id):
            heappop(self._heap)
        while self._seen < len(self._heads):
            key = self._heads[self._seen]
            if self._heap and self._heap[0].key < key:
                break
            self._seen += 1
            if self._is_tried((self._queue_id, key[5])):
                self._push_from((self._queue_id, key[5]), 0)
        return self._heap[0] if self._heap else None

    def is_next(self) -> bool:
        return bool(self._heap) and self._fits(self._heap[0].class_id[1])

    def pop(self) -> Candidate:
        return heappop(self._heap)

    def push(self, candidate: Candidate) -> None:
        heappush(self._heap, candidate)

    def push_next(self, candidate: Candidate, wanted: Callable[[Key], bool] | None = None) -> None:
        self._push_from(candidate.class_id, candidate.position + 1, wanted)

    def _is_tried(self, class_id: ClassId) -> bool:
        if self._fits(class_id[1]):
            return True
        if self._is_watched is None:
            self._is_watched = self._onlooker is not None and self._onlooker.wants_any_of(self._queue_id)
        return self._is_watched and self._onlooker is not None and self._onlooker.wants(class_id)

    def _push_from(
        self, class_id: ClassId, position: int, wanted: Callable[[Key], bool] | None = None
    ) -> None:
        keys = self._classes[class_id]
        for index in range(position, len(keys)):
            if self._takes_part(keys[index]) and (wanted is None or wanted(keys[index])):
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

    def is_next(self) -> bool:
        return bool(self._next)

    def pop(self) -> Candidate:
        return self._next.pop()

    def push(self, candidate: Candidate) -> None:
        self._next.append(candidate)

    def push_next(self, candidate: Candidate, wanted: Callable[[Key], bool] | None = None) -> None:
        """The line goes on by itself."""
