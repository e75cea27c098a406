"""What claims promise, watched from cycle to cycle: dates that never move later, starts no later than they
said, and nobody on claimed places who may not be there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from service.admission.plan import Admission
from service.admission.preemption.preempt import CLEARING_SECONDS
from service.admission.world import PendingUnit
from service.domain.claim import Claim, ClaimCause
from service.domain.node import Place
from service.domain.queue import PreemptWithin
from simulation.replay.loop import Moment, Simulation

Devices = set[tuple[int, int]]


class Promises:
    """Of one simulation in which queues lend nothing to each other, so that only a higher priority of its own
    queue goes before a claimant."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._before: dict[int, Claim] = {}
        self._last_at = simulation.now
        #: The date that stands, by unit; of one that was overtaken it is the new one.
        self._dates: dict[int, datetime] = {}
        #: How many dated claims there were, and of those how many of their units have started.
        self.made = self.kept = self.overtaken = self.overtaken_guards = 0
        #: How many ran on claimed places: until their date, and because the claimant may preempt them.
        self.beside = self.endless_beside = 0
        #: Claims of guards; the most of them at once; how many claims had no date.
        self.guards = self.most_guards = self.undated = 0

    def check(self, moment: Moment, *, is_disturbed: bool = False) -> None:
        """After the plan has been carried out. `is_disturbed`: a node or the configuration has changed."""
        claims = dict(self._simulation.world.claims)
        started = {each.from_unit_id for each in moment.plan.admissions}
        for admission in moment.plan.admissions:
            self._check_places(admission, moment)
            self._check_start(admission, moment, is_disturbed=is_disturbed)
        for unit_id, before in self._before.items():
            # Of a range the next member gets a claim of its own when one has started.
            if unit_id in self._simulation.world.pending and unit_id not in started and not is_disturbed:
                self._check_date(before, claims.get(unit_id), moment)
        for unit_id, claim in claims.items():
            self.made += unit_id not in self._dates and claim.due_at is not None
            known = self._before.get(unit_id)
            is_guard = claim.cause is ClaimCause.GUARD
            self.guards += is_guard and (known is None or known.cause is not claim.cause)
            self.undated += claim.due_at is None and (known is None or known.due_at is not None)
            if claim.due_at is not None:
                self._dates[unit_id] = claim.due_at
        if is_disturbed:
            # What was kept is kept no more, or has another date.
            self._dates = {unit_id: at for unit_id, at in self._dates.items() if unit_id in claims}
        guards = sum(claim.cause is ClaimCause.GUARD for claim in claims.values())
        self.most_guards = max(self.most_guards, guards)
        self._before, self._last_at = claims, moment.now

    def _check_start(self, admission: Admission, moment: Moment, *, is_disturbed: bool) -> None:
        date = self._dates.pop(admission.from_unit_id, None)
        if date is not None:
            # In the first cycle from then on at the latest.
            is_in_time = moment.now <= date or self._last_at < date
            assert is_in_time or is_disturbed, f"g{admission.group_id} starts after {date}"
            self.kept += 1

    def _check_date(self, before: Claim, after: Claim | None, moment: Moment) -> None:
        """A date moves later, or goes, only if somebody of higher priority sits on the places or claims them,
        or a guard does; a claim goes also where the higher priority has one, and no more may have any."""
        if before.due_at is None:
            # Without a date nothing is promised but the places.
            return
        until = before.due_at
        if after is not None and after.cause is ClaimCause.PREEMPTION:
            # Those who were let on its places because it may preempt them have their grace.
            until += self._longest_grace(moment) + timedelta(seconds=CLEARING_SECONDS)
        if after is not None and after.due_at is not None and after.due_at <= until:
            return
        taken = self._taken_in(moment, before)
        claimant = self._row(before.unit_id)
        assert any(
            (self._goes_before(row, claimant) and (is_there or after is None)) or (is_guard and is_there)
            for row, is_guard, is_there in taken
        ), f"{claimant.public_id}: {before.due_at} became {after and after.due_at}"
        self.overtaken += 1
        self.overtaken_guards += before.cause is ClaimCause.GUARD
        if after is None or after.due_at is None:
            self._dates.pop(before.unit_id, None)

    def _longest_grace(self, moment: Moment) -> timedelta:
        graces = (self._row(eviction.unit_id).grace_seconds for eviction in moment.plan.evictions)
        return timedelta(seconds=max(graces, default=0))

    def _check_places(self, admission: Admission, moment: Moment) -> None:
        row, devices = self._row(admission.from_unit_id), _devices(admission.places)
        started = {each.from_unit_id for each in moment.plan.admissions}
        for claim in self._before.values():
            if claim.unit_id in started or claim.unit_id not in self._simulation.world.pending:
                continue
            if devices & _devices(claim.places):
                claimant = self._row(claim.unit_id)
                # Behind somebody who overtook it in the same cycle it has another date.
                now = self._simulation.world.claims.get(claim.unit_id, claim)
                is_gone = _ends_by(row, moment.now, claim.due_at) or _ends_by(row, moment.now, now.due_at)
                self.beside += is_gone
                may_preempt = self._may_preempt(claimant, row)
                self.endless_beside += may_preempt and row.time_limit_seconds is None
                assert is_gone or self._goes_before(row, claimant) or may_preempt, (
                    f"{row.public_id} sits on what is kept for {claimant.public_id}"
                )

    def _taken_in(self, moment: Moment, before: Claim) -> Iterator[tuple[PendingUnit, bool, bool]]:
        """Who was admitted or has a claim, whether that is a guard's, and whether it is on these places."""
        places = _devices(before.places)
        for admission in moment.plan.admissions:
            yield self._row(admission.from_unit_id), False, bool(places & _devices(admission.places))
        for claim in self._simulation.world.claims.values():
            if claim.unit_id != before.unit_id:
                is_guard = claim.cause is ClaimCause.GUARD and before.cause is ClaimCause.HEAD
                yield self._row(claim.unit_id), is_guard, bool(places & _devices(claim.places))

    def _row(self, unit_id: int) -> PendingUnit:
        return self._simulation.books.job(unit_id >> 20).row

    @staticmethod
    def _goes_before(row: PendingUnit, claimant: PendingUnit) -> bool:
        return row.queue_id == claimant.queue_id and row.priority > claimant.priority

    def _may_preempt(self, claimant: PendingUnit, row: PendingUnit) -> bool:
        queue = self._simulation.world.configuration.queues[claimant.queue_id]
        return (
            claimant.queue_id == row.queue_id
            and claimant.priority > row.priority
            and row.is_preemptible
            and queue.policy.preempt_within is PreemptWithin.LOWER_PRIORITY
        )


def _devices(places: Iterable[Place]) -> Devices:
    return {(place.node_id, device) for place in places for device in place.devices}


def _ends_by(row: PendingUnit, now: datetime, due_at: datetime | None) -> bool:
    if due_at is None or row.time_limit_seconds is None:
        return False
    return now + timedelta(seconds=row.time_limit_seconds + row.grace_seconds) <= due_at
