"""Whose guards have run out, in that order: kept from cycle to cycle, so that a cycle looks only at classes
that changed, and at those whose next guard is due."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from service.admission.pauses import Pauses, clock_of
from service.admission.waiting.backlog import Backlog, ClassId, starts_of_ranks
from service.admission.waiting.eligibility import is_eligible, waits_until
from service.admission.waiting.line import Key
from service.admission.waiting.terms import stored_shape_id
from service.admission.world import PendingUnit

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def waits_since(row: PendingUnit) -> datetime:
    """Since when it could have been admitted."""
    return row.waiting_since or row.submitted_at


class RunOut(NamedTuple):
    """A class of which guards have run out: when the first did, and of which rows, in their order."""

    at: datetime
    #: The lowest of its rows: among those whose guards ran out at once.
    lowest_id: int
    class_id: ClassId
    unit_ids: tuple[int, ...]


class Guards:
    """A memo of a World: a new one finds out the same."""

    def __init__(self) -> None:
        self._guard: timedelta | None = None
        #: By class, before when no other guard of it runs out, in microseconds; the heap may name older ones.
        self._due: dict[ClassId, int] = {}
        self._heap: list[tuple[int, ClassId]] = []
        self._run_out: dict[ClassId, RunOut] = {}
        self._order: list[RunOut] = []
        self._forgotten: set[int] = set()

    def forget(self, queue_id: int) -> None:
        """What was noted of the queue's pauses is told in another way now."""
        self._forgotten.add(queue_id)

    def in_order(
        self, backlog: Backlog, pauses: Mapping[int, Pauses], now: datetime, guard_seconds: float
    ) -> Iterator[RunOut]:
        """Classes by when their first guard ran out."""
        self._refresh(backlog, pauses, now, timedelta(seconds=guard_seconds))
        return (each for each in self._order if each.at <= now)

    def _refresh(
        self, backlog: Backlog, pauses: Mapping[int, Pauses], now: datetime, guard: timedelta
    ) -> None:
        if guard != self._guard:
            self._begin(backlog, guard)
        for queue_id in self._forgotten & backlog.shapes_in.keys():
            backlog.touched.update((queue_id, shape_id) for shape_id in backlog.shapes_in[queue_id])
        self._forgotten.clear()
        for class_id in backlog.touched:
            is_there = class_id in backlog.classes
            due = backlog.first_submitted(class_id) + guard // _MICROSECOND if is_there else None
            if due is not None and self._due.get(class_id) == due and class_id not in self._run_out:
                continue
            self._drop(class_id)
            if due is not None:
                self._note_due(class_id, due)
        backlog.touched.clear()
        latest = (now - _EPOCH) // _MICROSECOND
        while self._heap and self._heap[0][0] <= latest:
            due, class_id = heappop(self._heap)
            if self._due.get(class_id) == due:
                self._look(class_id, backlog, pauses.get(class_id[0], ()), now=now, guard=guard)

    def _begin(self, backlog: Backlog, guard: timedelta) -> None:
        self._guard = guard
        self._due.clear()
        self._heap.clear()
        self._run_out.clear()
        self._order.clear()
        backlog.touched.update(backlog.classes)

    def _drop(self, class_id: ClassId) -> None:
        self._due.pop(class_id, None)
        known = self._run_out.pop(class_id, None)
        if known is not None:
            del self._order[bisect_left(self._order, known)]

    def _note_due(self, class_id: ClassId, due: int) -> None:
        self._due[class_id] = due
        if len(self._heap) > 64 + 4 * len(self._due):
            # Most of what it names is over.
            self._heap = [(each, of) for of, each in self._due.items()]
            heapify(self._heap)
            return
        heappush(self._heap, (due, class_id))

    def _look(
        self, class_id: ClassId, backlog: Backlog, pauses: Pauses, *, now: datetime, guard: timedelta
    ) -> None:
        """Row by row, of those that were submitted long enough ago."""
        self._drop(class_id)
        keys, due, run_out = backlog.classes[class_id], [], []
        first: datetime | None = None
        for key, submitted_long_ago in _by_age(keys, (now - guard - _EPOCH) // _MICROSECOND):
            if not submitted_long_ago:
                due.append(_EPOCH + key[1] * _MICROSECOND + guard)
                continue
            row = backlog.rows[key[4]]
            at = _due_at(row, pauses, now=now, guard=guard)
            if at is None:
                continue
            if at > now:
                due.append(at)
                continue
            run_out.append(row.id)
            first = at if first is None else min(first, at)
        if due:
            self._note_due(class_id, (min(due) - _EPOCH) // _MICROSECOND)
        if first is not None:
            self._run_out[class_id] = RunOut(first, min(run_out), class_id, tuple(run_out))
            insort(self._order, self._run_out[class_id])


def _by_age(keys: list[Key], latest: int) -> Iterator[tuple[Key, bool]]:
    """Keys that were submitted by then; of each rank only the first of those that were not."""
    for at in starts_of_ranks(keys):
        until = bisect_left(keys, (keys[at][0], latest + 1), at)
        for index in range(at, until):
            yield keys[index], True
        if until < len(keys) and keys[until][0] == keys[at][0]:
            yield keys[until], False


def _due_at(row: PendingUnit, pauses: Pauses, *, now: datetime, guard: timedelta) -> datetime | None:
    """When its guard ran out, or the earliest instant at which it could; None for a row that has to change
    before."""
    if not is_eligible(row, now):
        until = waits_until(row)
        return None if row.is_held or row.open_dependencies or until is None else until
    clock = clock_of(pauses, stored_shape_id(row.shape_id), row.id, since=waits_since(row), guard=guard)
    return now + clock.left if clock.runs_out_at is None else clock.runs_out_at
