"""What waits, in order: by queue, and by class (equal shapes in one queue), so that a cycle costs
what classes and admissions cost and not what waits."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from service.admission.waiting.eligibility import is_eligible, is_plain, waits_until
from service.admission.waiting.line import Key, Line
from service.admission.waiting.ranks import rank_of
from service.admission.world import PendingUnit
from service.domain.queue import OrderBy

ClassId = tuple[int, int]


class Kind(NamedTuple):
    """What rows of a class may differ in, besides their age, that decides on whose places they may go."""

    priority: int
    time_limit_seconds: float | None
    grace_seconds: float
    is_preemptible: bool
    has_never_run: bool


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
#: Beyond so many new rows of a class one sort is cheaper than one insertion after the other.
_BULK = 16


def kind_of(row: PendingUnit) -> Kind:
    return Kind(
        row.priority, row.time_limit_seconds, row.grace_seconds, row.is_preemptible, row.has_never_run
    )


def starts_of_ranks(keys: list[Key]) -> Iterator[int]:
    """Where in sorted keys those of each rank begin: the first of them was submitted first."""
    at = 0
    while at < len(keys):
        yield at
        at = bisect_left(keys, (keys[at][0] + 1,), at)


def _first_submitted(keys: list[Key]) -> int:
    """When the first was submitted of sorted keys, in microseconds."""
    if keys[0][0] == keys[-1][0]:
        return keys[0][1]
    return min(keys[at][1] for at in starts_of_ranks(keys))


class Backlog:
    """Waiting rows. `revisions` counts, by queue, the changes of what waits in it, `class_revisions`
    those of which shapes wait in it."""

    def __init__(self) -> None:
        self.rows: dict[int, PendingUnit] = {}
        self.classes: dict[ClassId, list[Key]] = {}
        #: The kinds of a class's rows, with how many of each there are.
        self.kinds_in: dict[ClassId, Counter[Kind]] = {}
        self.lines: dict[int, Line] = {}
        #: Which shapes wait in a queue, sorted, and in which queues a shape waits.
        self.shapes_in: dict[int, list[int]] = {}
        self.queues_of: dict[int, set[int]] = {}
        self.revisions: dict[int, int] = {}
        self.class_revisions: dict[int, int] = {}
        #: The first row of each class of a queue, sorted.
        self.heads_in: dict[int, list[Key]] = {}
        #: By queue, rows that may use nominal quota alone.
        self.bound: dict[int, set[int]] = {}
        #: Classes in which rows came or went, until somebody takes note of it.
        self.touched: set[ClassId] = set()
        #: Of queues that do not go by age alone: what they order by, and of each class when its rows were
        #: submitted, sorted.
        self._order_by: dict[int, OrderBy] = {}
        self._submitted: dict[ClassId, list[int]] = {}
        self._keys: dict[int, Key] = {}
        self._waits: list[tuple[datetime, int]] = []

    def replace(self, removed: Iterable[int], added: Mapping[int, PendingUnit]) -> None:
        """Take rows out and put rows in; a row that is in both, or already there, is replaced."""
        self._remove([*removed, *added])
        by_queue: dict[int, list[Key]] = {}
        for row in added.values():
            self.rows[row.id] = row
            key = self._keys[row.id] = self._key_of(row)
            by_queue.setdefault(row.queue_id, []).append(key)
            kinds = self.kinds_in.setdefault((row.queue_id, row.shape_id), Counter())
            kinds[kind_of(row)] += 1
            if not row.is_preemptible:
                self.bound.setdefault(row.queue_id, set()).add(row.id)
            if (until := waits_until(row)) is not None:
                insort(self._waits, (until, row.id))
        for queue_id, keys in by_queue.items():
            self._add(queue_id, keys)

    def key(self, unit_id: int) -> Key:
        """Of a row that waits."""
        return self._keys[unit_id]

    def order_queues(self, order_by: Mapping[int, OrderBy]) -> None:
        """All others go by age alone."""
        queue_ids = order_by.keys() | self._order_by.keys()
        moved = {each for each in queue_ids if order_by.get(each) is not self._order_by.get(each)}
        if not moved:
            return
        rows = {row.id: row for row in self.rows.values() if row.queue_id in moved}
        self._remove(rows)
        self._order_by = dict(order_by)
        self.replace((), rows)

    def first_submitted(self, class_id: ClassId) -> int:
        """When the first of the class was submitted, in microseconds."""
        submitted = self._submitted.get(class_id)
        return submitted[0] if submitted else _first_submitted(self.classes[class_id])

    def _key_of(self, row: PendingUnit) -> Key:
        submitted = (row.submitted_at - _EPOCH) // _MICROSECOND
        rank = rank_of(row, self._order_by.get(row.queue_id, OrderBy.AGE))
        return rank, submitted, row.group_id, row.first_index, row.id, row.shape_id, is_plain(row)

    def next_wait_end(self, now: datetime) -> datetime | None:
        """The earliest instant after `now` at which a row becomes eligible by itself."""
        for index in range(bisect_left(self._waits, (now, -1)), len(self._waits)):
            until, unit_id = self._waits[index]
            if until > now and is_eligible(self.rows[unit_id], until):
                return until
        return None

    def emptied_by(self, unit_ids: Collection[int]) -> dict[int, frozenset[int]]:
        """By queue, shapes of which nothing would wait without these rows."""
        touched = {(row.queue_id, row.shape_id) for row in map(self.rows.__getitem__, unit_ids)}
        emptied: dict[int, set[int]] = {}
        for queue_id, shape_id in touched:
            if all(key[4] in unit_ids for key in self.classes[queue_id, shape_id]):
                emptied.setdefault(queue_id, set()).add(shape_id)
        return {queue_id: frozenset(shape_ids) for queue_id, shape_ids in emptied.items()}

    def oldest_in(self, queue_id: int) -> datetime:
        """When the first was submitted of those that wait in the queue."""
        first = min(self.first_submitted((queue_id, shape_id)) for shape_id in self.shapes_in[queue_id])
        return _EPOCH + first * _MICROSECOND

    def _add(self, queue_id: int, keys: list[Key]) -> None:
        self.revisions[queue_id] = self.revisions.get(queue_id, 0) + 1
        self.lines.setdefault(queue_id, Line()).add(keys)
        by_shape: dict[int, list[Key]] = {}
        for key in keys:
            by_shape.setdefault(key[5], []).append(key)
        for shape_id, own in by_shape.items():
            self._add_to_class(queue_id, shape_id, own)

    def _add_to_class(self, queue_id: int, shape_id: int, keys: list[Key]) -> None:
        rows = self.classes.get((queue_id, shape_id))
        if rows is None:
            rows = self.classes[queue_id, shape_id] = []
            insort(self.shapes_in.setdefault(queue_id, []), shape_id)
            self.queues_of.setdefault(shape_id, set()).add(queue_id)
            self.class_revisions[queue_id] = self.class_revisions.get(queue_id, 0) + 1
        self.touched.add((queue_id, shape_id))
        before = rows[0] if rows else None
        if len(keys) > _BULK:
            rows.extend(keys)
            rows.sort()
        else:
            for key in keys:
                insort(rows, key)
        if queue_id in self._order_by:
            submitted = self._submitted.setdefault((queue_id, shape_id), [])
            submitted.extend(key[1] for key in keys)
            submitted.sort()
        self._move_head(queue_id, before, rows[0])

    def _remove(self, unit_ids: Iterable[int]) -> None:
        by_queue: dict[int, list[Key]] = {}
        for unit_id in unit_ids:
            row = self.rows.pop(unit_id, None)
            if row is None:
                continue
            key = self._keys.pop(unit_id)
            by_queue.setdefault(row.queue_id, []).append(key)
            self.touched.add((row.queue_id, row.shape_id))
            if not row.is_preemptible:
                self._unbind(row)
            rows = self.classes[row.queue_id, row.shape_id]
            before = rows[0]
            del rows[bisect_left(rows, key)]
            if row.queue_id in self._order_by:
                submitted = self._submitted[row.queue_id, row.shape_id]
                del submitted[bisect_left(submitted, key[1])]
            self._drop_kind(row)
            self._move_head(row.queue_id, before, rows[0] if rows else None)
            if not rows:
                self._drop_class(row.queue_id, row.shape_id)
            if (until := waits_until(row)) is not None:
                del self._waits[bisect_left(self._waits, (until, row.id))]
        for queue_id, keys in by_queue.items():
            self.revisions[queue_id] += 1
            self.lines[queue_id].remove(keys)
            if not self.lines[queue_id]:
                del self.lines[queue_id]

    def _move_head(self, queue_id: int, before: Key | None, after: Key | None) -> None:
        """The first row of a class of the queue was one and is another, or none."""
        if before == after:
            return
        heads = self.heads_in.setdefault(queue_id, [])
        if before is not None:
            del heads[bisect_left(heads, before)]
        if after is not None:
            insort(heads, after)

    def _drop_kind(self, row: PendingUnit) -> None:
        kinds, kind = self.kinds_in[row.queue_id, row.shape_id], kind_of(row)
        kinds[kind] -= 1
        if not kinds[kind]:
            del kinds[kind]

    def _unbind(self, row: PendingUnit) -> None:
        bound = self.bound[row.queue_id]
        bound.discard(row.id)
        if not bound:
            del self.bound[row.queue_id]

    def _drop_class(self, queue_id: int, shape_id: int) -> None:
        del self.classes[queue_id, shape_id], self.kinds_in[queue_id, shape_id]
        self._submitted.pop((queue_id, shape_id), None)
        shapes, queues = self.shapes_in[queue_id], self.queues_of[shape_id]
        del shapes[bisect_left(shapes, shape_id)]
        queues.discard(queue_id)
        self.class_revisions[queue_id] += 1
        if not shapes:
            del self.shapes_in[queue_id], self.heads_in[queue_id]
        if not queues:
            del self.queues_of[shape_id]
