"""How long a group may wait at most, by rule 7 of what always holds: told when its guard has run out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import heappop, heappush

from service.admission.pauses import clock_of
from service.admission.resident import World
from service.admission.world import PendingUnit
from service.domain.claim import Claim, ClaimCause
from simulation.replay.loop import Moment

#: A guard that is longer never runs out.
_LONGEST_SECONDS = 1e10
#: So many starts of guarded units are remembered.
_STARTS_KEPT = 4096


@dataclass(slots=True)
class _Guarded:
    """Since when the guard of a unit has run out, and how long it holds its places at most once it runs;
    None without a limit. `started_at` None: it waits yet."""

    ran_out_at: datetime
    holds: timedelta | None
    has_places: bool = False
    started_at: datetime | None = None


class Bounds:
    """A bound is the guard, as its clock ran; plus the longest enforced remaining time of who sits on the
    places that are kept; plus the time limits of those that were guarded before and had not started when it
    ran out. Until places are kept for it, the longest remaining time of anybody counts. There is no bound
    where one of them has no limit."""

    def __init__(self, world: World, *, guard_seconds: float) -> None:
        self._world = world
        self._is_endless = guard_seconds > _LONGEST_SECONDS
        self._guard = timedelta(seconds=min(guard_seconds, _LONGEST_SECONDS))
        #: Rows that wait since so long before.
        self._clocks: list[tuple[datetime, int, int]] = []
        self._guarded: dict[int, _Guarded] = {}
        self._started: list[_Guarded] = []

    def note(self, moment: Moment) -> list[tuple[int, float]]:
        """Groups whose bound is known from now on, in seconds since they came to wait. After the plan has
        been carried out."""
        if self._is_endless:
            return []
        for row in (*moment.news.submitted, *moment.news.pending.values()):
            heappush(self._clocks, (_since(row) + self._guard, row.id, row.attempt))
        found = [*self._expired(moment.now), *self._claimed(moment)]
        for admission in moment.plan.admissions:
            guarded = self._guarded.pop(admission.from_unit_id, None)
            if guarded is not None:
                guarded.started_at = moment.now
                self._started.append(guarded)
        for row in moment.news.withdrawn:
            self._guarded.pop(row.id, None)
        del self._started[: -_STARTS_KEPT - 1]
        return found

    def _expired(self, now: datetime) -> Iterator[tuple[int, float]]:
        """Those whose guard has run out since the last cycle, and who wait yet."""
        while self._clocks and self._clocks[0][0] <= now:
            _, row_id, attempt = heappop(self._clocks)
            row = self._world.pending.get(row_id)
            if row is None or row.attempt != attempt or row_id in self._guarded:
                continue
            runs_out_at = self._runs_out_at(row)
            if runs_out_at is None or runs_out_at > now:
                # Its clock stood still for a while, or does so yet.
                heappush(self._clocks, (runs_out_at or now + self._guard / 96, row_id, attempt))
                continue
            guarded = self._guarded[row_id] = _Guarded(runs_out_at, _holds(row))
            ends = [unit.frees_at for unit in self._world.running.values()]
            if None not in ends:
                last = max((at for at in ends if at is not None), default=now)
                yield from self._bound(row, guarded, last - now)

    def _claimed(self, moment: Moment) -> Iterator[tuple[int, float]]:
        """Those for whom places are kept for the first time."""
        for claim in moment.plan.claims_made:
            row = self._world.pending.get(claim.unit_id)
            guarded = self._guarded.get(claim.unit_id)
            if row is None or guarded is None or guarded.has_places or not _is_kept(claim):
                continue
            guarded.has_places = True
            assert claim.due_at is not None
            yield from self._bound(row, guarded, claim.due_at - moment.now)

    def _bound(
        self, row: PendingUnit, guarded: _Guarded, remaining: timedelta
    ) -> Iterator[tuple[int, float]]:
        before = [
            each
            for each in (*self._guarded.values(), *self._started)
            if each is not guarded and _is_before(each, guarded)
        ]
        if any(each.holds is None for each in before):
            return
        held = sum((each.holds for each in before if each.holds is not None), timedelta())
        bound = guarded.ran_out_at - _since(row) + max(timedelta(), remaining) + held
        yield row.group_id, bound.total_seconds()

    def _runs_out_at(self, row: PendingUnit) -> datetime | None:
        pauses = self._world.pauses.get(row.queue_id, ())
        return clock_of(pauses, row.shape_id, row.id, since=_since(row), guard=self._guard).runs_out_at


def _is_before(other: _Guarded, guarded: _Guarded) -> bool:
    """Whether it was guarded before, and had not started by then."""
    has_started = other.started_at is not None and other.started_at <= guarded.ran_out_at
    return other.ran_out_at <= guarded.ran_out_at and not has_started


def _is_kept(claim: Claim) -> bool:
    return claim.cause is ClaimCause.GUARD and claim.due_at is not None


def _since(row: PendingUnit) -> datetime:
    return row.waiting_since or row.submitted_at


def _holds(row: PendingUnit) -> timedelta | None:
    limit = row.time_limit_seconds
    return None if limit is None else timedelta(seconds=limit + row.grace_seconds)
