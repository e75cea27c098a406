"""When guard clocks of a queue stood still, because something else than places was missing."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

#: So many pauses are kept of one queue.
_MOST = 128
#: A guard has so many slots. Within one, no clock of a queue is stopped that ran when it began.
_SLOTS = 96
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Halted(NamedTuple):
    """Whose clocks of a queue stand still: those of these classes, by the shape that was submitted, and of
    these rows. `moving`: where it is not None, those of all but these rows. Each is sorted."""

    shape_ids: tuple[int, ...] = ()
    unit_ids: tuple[int, ...] = ()
    moving: tuple[int, ...] | None = None

    def stops(self, shape_id: int, unit_id: int) -> bool:
        if self.moving is not None:
            return not _has(self.moving, unit_id)
        return _has(self.shape_ids, shape_id) or _has(self.unit_ids, unit_id)


NOBODY = Halted()
EVERYBODY = Halted(moving=())


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardPause:
    """`ended_at` is None while it goes on."""

    queue_id: int
    began_at: datetime
    ended_at: datetime | None
    halted: Halted


#: Those of one queue, in the order of time; only the last may go on. None overlap.
Pauses = tuple[GuardPause, ...]


class Clock(NamedTuple):
    """A guard's clock. `left`: how much of the guard had not run when the last pause that goes on began.
    `runs_out_at`: when it has run out, if nothing but places is missing until then; None while it stands
    still before that."""

    left: timedelta
    runs_out_at: datetime | None


def clock_of(pauses: Pauses, shape_id: int, unit_id: int, *, since: datetime, guard: timedelta) -> Clock:
    """The clock of a row that waits `since` then. `shape_id`: the shape that was submitted."""
    at, left = since, guard
    for pause in pauses:
        if (pause.ended_at is not None and pause.ended_at <= at) or not pause.halted.stops(shape_id, unit_id):
            continue
        ran = max(timedelta(), pause.began_at - at)
        if ran >= left:
            break
        left -= ran
        if pause.ended_at is None:
            return Clock(left, None)
        at = pause.ended_at
    return Clock(left, at + left)


def next_pauses(
    pauses: Pauses,
    halted: Halted,
    *,
    queue_id: int,
    now: datetime,
    guard_seconds: float,
    is_waiting: Callable[[int], bool],
) -> Pauses:
    """With whose clocks stand still from now on; the same object if nothing has to be noted. `is_waiting`
    says so of a row: nobody asks any more for the clock of one that has left, and that it left is no change.

    A clock that runs again is noted at once. One that stops is noted once in a slot of the queue, and only
    then: what stops for a moment again and again is told no more than it stood still, and the log stays
    short.
    """
    last = pauses[-1] if pauses else None
    current = last.halted if last is not None and last.ended_at is None else NOBODY
    changed_at = None if last is None else last.ended_at or last.began_at
    if halted == current or (changed_at is not None and now < changed_at):
        return pauses
    current = _of_waiting(current, is_waiting)
    if halted == current:
        return pauses
    if changed_at is not None and _slot(now, guard_seconds) <= _slot(changed_at, guard_seconds):
        halted = _common(current, halted)
        if halted == current:
            return pauses
    if last is not None and last.ended_at is None:
        ended = () if last.began_at == now else (replace(last, ended_at=now),)
        pauses = (*pauses[:-1], *ended)
    if halted != NOBODY:
        pauses = (*pauses, GuardPause(queue_id=queue_id, began_at=now, ended_at=None, halted=halted))
    return _shortened(pauses, is_waiting)


def without_old(pauses: Pauses, since: datetime) -> Pauses:
    """Those that somebody who waits `since` then may have met."""
    met = [pause for pause in pauses if pause.ended_at is None or pause.ended_at > since]
    return pauses if len(met) == len(pauses) else tuple(met)


def _shortened(pauses: Pauses, is_waiting: Callable[[int], bool]) -> Pauses:
    """Of too many the oldest two become one, of whom both stopped; the others are told that they ran."""
    while len(pauses) > _MOST:
        first, second, *rest = pauses
        both = (_of_waiting(each.halted, is_waiting) for each in (first, second))
        halted = _common(*both) if first.ended_at == second.began_at else NOBODY
        merged = () if halted == NOBODY else (replace(second, began_at=first.began_at, halted=halted),)
        pauses = (*merged, *(rest if merged else pauses[1:]))
    return pauses


def _of_waiting(halted: Halted, is_waiting: Callable[[int], bool]) -> Halted:
    """Without the rows that have left."""
    moving = halted.moving
    return Halted(
        halted.shape_ids,
        tuple(unit_id for unit_id in halted.unit_ids if is_waiting(unit_id)),
        None if moving is None else tuple(unit_id for unit_id in moving if is_waiting(unit_id)),
    )


def _common(one: Halted, other: Halted) -> Halted:
    """Whom both stop."""
    if one.moving is not None and other.moving is not None:
        return Halted(moving=_sorted({*one.moving, *other.moving}))
    if one.moving is not None or other.moving is not None:
        # Which rows are of which class is not known here.
        return NOBODY
    return Halted(
        _sorted(set(one.shape_ids).intersection(other.shape_ids)),
        _sorted(set(one.unit_ids).intersection(other.unit_ids)),
    )


def _slot(at: datetime, guard_seconds: float) -> int:
    """In whole microseconds, so that the same instant is always in the same one."""
    width = max(1, round(guard_seconds / _SLOTS * 1_000_000))
    return ((at - _EPOCH) // _MICROSECOND) // width


def _has(numbers: tuple[int, ...], number: int) -> bool:
    at = bisect_left(numbers, number)
    return at < len(numbers) and numbers[at] == number


def _sorted(numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(numbers))
