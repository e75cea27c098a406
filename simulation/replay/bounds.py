"""How long a group may wait at most, by rule 7 of what always holds: told when its guard keeps places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from service.admission.pauses import clock_of
from service.admission.resident import World
from service.admission.world import PendingUnit
from service.domain.claim import Claim, ClaimCause
from simulation.replay.loop import Moment


@dataclass(frozen=True, slots=True)
class _Guarded:
    """Since when the guard of a unit has run out, and how long it holds its places at most once it runs;
    None without a limit. `started_at` None: it waits yet."""

    ran_out_at: datetime
    holds: timedelta | None
    started_at: datetime | None = None


class Bounds:
    """A bound is the guard, as far as its clock ran out; plus the longest enforced remaining time of who sits
    on the places that are kept; plus the time limits of those that were guarded before and had not started
    when it ran out. No bound where one of them has no limit."""

    def __init__(self, world: World, *, guard_seconds: float) -> None:
        self._world = world
        self._guard = timedelta(seconds=min(guard_seconds, timedelta.max.total_seconds() / 4))
        self._guarded: dict[int, _Guarded] = {}
        self._started: list[_Guarded] = []

    def note(self, moment: Moment) -> list[tuple[int, float]]:
        """Groups whose bound is known from now on, in seconds since they came to wait. After the plan has
        been carried out."""
        found = list(self._found(moment))
        if self._guarded:
            for admission in moment.plan.admissions:
                guarded = self._guarded.pop(admission.from_unit_id, None)
                if guarded is not None:
                    started = _Guarded(guarded.ran_out_at, guarded.holds, moment.now)
                    self._started.append(started)
            self._forget()
        return found

    def _found(self, moment: Moment) -> Iterator[tuple[int, float]]:
        for claim in moment.plan.claims_made:
            row = self._world.pending.get(claim.unit_id)
            if claim.cause is not ClaimCause.GUARD or row is None or row.id in self._guarded:
                continue
            ran_out_at = self._ran_out_at(row, moment.now)
            seconds = self._bound(row, claim, ran_out_at, moment.now)
            self._guarded[row.id] = _Guarded(ran_out_at, _holds(row))
            if seconds is not None:
                yield row.group_id, seconds

    def _bound(self, row: PendingUnit, claim: Claim, ran_out_at: datetime, now: datetime) -> float | None:
        before = [each for each in self._guarded.values() if each.ran_out_at <= ran_out_at]
        before += [each for each in self._started if each.ran_out_at <= ran_out_at < _never_none(each)]
        if claim.due_at is None or any(each.holds is None for each in before):
            return None
        held = sum((each.holds for each in before if each.holds is not None), timedelta())
        guard = ran_out_at - _since(row)
        return (guard + max(timedelta(), claim.due_at - now) + held).total_seconds()

    def _ran_out_at(self, row: PendingUnit, now: datetime) -> datetime:
        pauses = self._world.pauses.get(row.queue_id, ())
        clock = clock_of(pauses, row.shape_id, row.id, since=_since(row), guard=self._guard)
        return now if clock.runs_out_at is None else min(now, clock.runs_out_at)

    def _forget(self) -> None:
        """Who has ended while it waited, and starts that are before everything that can still be asked."""
        gone = [unit_id for unit_id in self._guarded if unit_id not in self._world.pending]
        for unit_id in gone:
            del self._guarded[unit_id]
        if len(self._started) > 4096:
            self._started = self._started[2048:]


def _since(row: PendingUnit) -> datetime:
    return row.waiting_since or row.submitted_at


def _holds(row: PendingUnit) -> timedelta | None:
    limit = row.time_limit_seconds
    return None if limit is None else timedelta(seconds=limit + row.grace_seconds)


def _never_none(guarded: _Guarded) -> datetime:
    assert guarded.started_at is not None
    return guarded.started_at
