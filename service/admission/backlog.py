"""What waits, in order: by queue, and by class (equal shapes in one queue), so that a cycle costs
what classes and admissions cost and not what waits."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from service.admission.world import PendingUnit

#: Priority (negated), submission in microseconds, group, first index, unit: the one order of
#: listing, position and admission. Then what is asked most, the unit being unique: its shape, and
#: whether it is plain, which is neither held nor ever backing off.
Key = tuple[int, int, int, int, int, int, bool]
ClassId = tuple[int, int]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
#: Beyond so many new rows one sort is cheaper than one insertion after the other.
_BULK = 64


def key_of(row: PendingUnit) -> Key:
    submitted = (row.submitted_at - _EPOCH) // _MICROSECOND
    is_plain = not row.is_held and row.backoff_until is None
    return (-row.priority, submitted, row.group_id, row.first_index, row.id, row.shape_id, is_plain)


class Backlog:
    """Waiting rows. `revisions` counts, by queue, the changes of what waits in it."""

    def __init__(self) -> None:
        self.rows: dict[int, PendingUnit] = {}
        self.classes: dict[ClassId, list[Key]] = {}
        self.queues: dict[int, list[Key]] = {}
        self.revisions: dict[int, int] = {}
        self._backoffs: list[tuple[datetime, int]] = []

    def replace(self, removed: Iterable[int], added: Mapping[int, PendingUnit]) -> None:
        """Take rows out and put rows in; a row that is in both, or already there, is replaced."""
        for unit_id in removed:
            self._remove(unit_id)
        for unit_id in added:
            self._remove(unit_id)
        is_bulk = len(added) > _BULK
        touched: dict[int, list[Key]] = {}
        for row in added.values():
            key = key_of(row)
            self.rows[row.id] = row
            self.revisions[row.queue_id] = self.revisions.get(row.queue_id, 0) + 1
            for keys in (
                self.classes.setdefault((row.queue_id, row.shape_id), []),
                self.queues.setdefault(row.queue_id, []),
            ):
                if is_bulk:
                    keys.append(key)
                    touched[id(keys)] = keys
                else:
                    insort(keys, key)
            if row.backoff_until is not None:
                insort(self._backoffs, (row.backoff_until, row.id))
        for keys in touched.values():
            keys.sort()

    def next_backoff_end(self, now: datetime) -> datetime | None:
        """The earliest end of a backoff after `now`, of rows that nobody holds."""
        for index in range(bisect_left(self._backoffs, (now, -1)), len(self._backoffs)):
            until, unit_id = self._backoffs[index]
            if until > now and not self.rows[unit_id].is_held:
                return until
        return None

    def _remove(self, unit_id: int) -> None:
        row = self.rows.pop(unit_id, None)
        if row is None:
            return
        key = key_of(row)
        self.revisions[row.queue_id] += 1
        class_id = (row.queue_id, row.shape_id)
        _discard(self.classes[class_id], key)
        if not self.classes[class_id]:
            del self.classes[class_id]
        _discard(self.queues[row.queue_id], key)
        if not self.queues[row.queue_id]:
            del self.queues[row.queue_id]
        if row.backoff_until is not None:
            backoff = (row.backoff_until, row.id)
            del self._backoffs[bisect_left(self._backoffs, backoff)]


def _discard(keys: list[Key], key: Key) -> None:
    del keys[bisect_left(keys, key)]
