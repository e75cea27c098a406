"""Claimants to whom others would give way, but not yet: from when on, who, and what keeps them until then."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from service.admission.nodes.binding import leading_amount
from service.admission.nodes.query import ShapeQuery
from service.admission.plan import Blocker
from service.admission.policy import Policy
from service.admission.preemption.candidates import Candidates
from service.admission.preemption.cheapest import Found
from service.admission.preemption.chooser import Choice, Chooser, rank_of
from service.admission.preemption.trial import Candidate, Trial
from service.admission.preemption.usages import usages_of
from service.admission.preemption.victims import entitled
from service.admission.resident import World
from service.admission.waiting.guard_line import waits_since
from service.admission.world import PendingUnit, RunningUnit
from service.domain.preemption import Entitlement, Protection
from service.domain.reasons import Code
from service.domain.resources import CPUS, MEMORY

#: How often places are sought in one cycle to date what is not done in it.
_TESTS = 400
#: So many candidates are looked at for that, a few times for each claimant: with more nothing is told.
_LOOKS = 6000
_PASSES = 3
#: At so many instants others are chosen, from the first on at which there would be room.
_TRIES = 3
#: Beyond the resize interval, for who began to wait shortly before the cycle that resized.
_SLACK_SECONDS = 60.0
#: So many groups are named.
_NAMED = 20
_RESOURCES = {"gpus": "gpus", "cpus_milli": CPUS, "memory_mib": MEMORY}


class Delay(NamedTuple):
    """`row` might start when those have given way of whom none does before `until`. `gives`: what they hold
    together of the resource `amount`; `kept`: how many groups each rule keeps from giving way now."""

    row: PendingUnit
    until: datetime
    amount: str
    need: int
    gives: int
    groups: int
    kept: Mapping[Protection, int]
    holders: tuple[str, ...]
    interval_seconds: float

    @property
    def key(self) -> str:
        """Name of the shared number of what they hold."""
        return f"gives:{self.row.id}"

    def blocker(self) -> Blocker:
        scope = {
            "resource": _RESOURCES[self.amount],
            "until": self.until.isoformat(timespec="seconds"),
            "groups": str(self.groups),
            **{protection.value: str(count) for protection, count in self.kept.items()},
        }
        if Protection.RESIZE_INTERVAL in self.kept:
            scope["resize_interval_seconds"] = f"{self.interval_seconds:g}"
        return Blocker(
            code=Code.PREEMPTION_DELAYED, need=self.need, have_key=self.key, scope=scope, holders=self.holders
        )

    def is_told(self, row: PendingUnit) -> bool:
        """Whether the same holds for another row of the class: nobody gives way to it any sooner."""
        return (
            row.priority == self.row.priority
            and row.is_preemptible == self.row.is_preemptible
            and row.has_never_run == self.row.has_never_run
            and waits_since(row) >= waits_since(self.row)
        )


class Delays:
    """Of one cycle. `found`: by row; `awaited`: elastic units whose surplus somebody waits for."""

    def __init__(
        self, world: World, policy: Policy, now: datetime, *, candidates: Candidates, most_exact: int
    ) -> None:
        self._world = world
        self._now = now
        self._interval_seconds = policy.resize_interval_seconds
        self._candidates = candidates
        self._chooser = Chooser(world, policy, tests=_TESTS, most_exact=most_exact)
        self._looks_left = _LOOKS
        self.found: dict[int, Delay] = {}
        self.awaited: set[int] = set()

    @property
    def next_end(self) -> datetime | None:
        """When the first of them ends."""
        return min((delay.until for delay in self.found.values()), default=None)

    def note_refused(self, row: PendingUnit, query: ShapeQuery) -> None:
        """Nobody gives way to the row now."""
        ends = self._candidates.ends(row)
        looks = _PASSES * self._candidates.count(row)
        if not ends or looks > self._looks_left:
            return
        self._looks_left -= looks
        first = self._first_with_room(row, query, ends)
        for end in ends[first : first + _TRIES] if first is not None else ():
            found = self._at(row, query, end)
            if found is not None:
                self._note(row, query, found, until=end)
                return

    def _first_with_room(self, row: PendingUnit, query: ShapeQuery, ends: Sequence[datetime]) -> int | None:
        """Of the instants the first at which all who may be taken then would make room together."""
        later, best = self._candidates.at(ends[-1]), len(ends)
        for usage in usages_of(query):
            trial = self._chooser.trial(later.claimant(row, usage), query)
            parts = later.of(trial.claimant, query, is_whole=False)
            tried = [parts]
            if any(candidate.of is not None for candidate in parts):
                tried.append(later.of(trial.claimant, query, is_whole=True))
            for candidates in tried:
                by_end: dict[int, list[Candidate]] = {}
                for candidate, right in entitled(trial, candidates):
                    at = bisect_left(ends, self._candidates.free_at(row, candidate, right))
                    by_end.setdefault(at, []).append(candidate)
                best = min(best, _first(best, by_end, trial))
        return best if best < len(ends) else None

    def is_delayed(self, row: PendingUnit, query: ShapeQuery, choice: Choice) -> bool:
        """Whether those that were chosen are spared, for the surplus of groups that were resized a short
        while ago will do, and costs less. The row waits for that no longer than the resize interval."""
        rested = self._candidates.rested()
        if choice.found is None or self._chooser.tests_left <= 0 or not rested.has_resting(row):
            return False
        found = self._chooser.choose(row, query, rested).found
        if found is None or rank_of(found) >= rank_of(choice.found):
            return False
        until = max(self._rests(found), default=None)
        bound = waits_since(row) + timedelta(seconds=self._interval_seconds + _SLACK_SECONDS)
        if until is None or until > bound:
            return False
        self._note(row, query, found, until=until)
        return True

    def _at(self, row: PendingUnit, query: ShapeQuery, instant: datetime) -> Found | None:
        if self._chooser.tests_left <= 0:
            return None
        return self._chooser.choose(row, query, self._candidates.at(instant)).found

    def _rests(self, found: Found) -> Iterator[datetime]:
        for candidate in found.victims:
            for protection, until in self._candidates.keeping(candidate):
                if protection is Protection.RESIZE_INTERVAL and until is not None:
                    yield until

    def _note(self, row: PendingUnit, query: ShapeQuery, found: Found, *, until: datetime) -> None:
        kept: dict[Protection, set[str]] = {}
        for candidate in found.victims:
            for protection in self._keeping(row, candidate, found.rights[candidate.unit.id]):
                kept.setdefault(protection, set()).add((candidate.of or candidate.unit).public_id)
        if not kept:
            return
        amount, groups = leading_amount(query), _names(each.of or each.unit for each in found.victims)
        self.awaited.update(each.of.id for each in found.victims if each.of is not None)
        self.found[row.id] = Delay(
            row,
            until,
            amount,
            need=getattr(query.total, amount),
            gives=sum(_held(each.unit, amount) for each in found.victims),
            groups=len(groups),
            kept={protection: len(kept[protection]) for protection in Protection if protection in kept},
            holders=groups[:_NAMED],
            interval_seconds=self._interval_seconds,
        )

    def _keeping(self, row: PendingUnit, candidate: Candidate, right: Entitlement) -> Iterator[Protection]:
        """What keeps it from giving way to the row now: who takes nominal quota back waits only so long for
        anything but resizes."""
        is_asked = right is Entitlement.RECLAIM and not self._candidates.claimant(row, {}).is_patient
        for protection, _ in self._candidates.keeping(candidate):
            if protection is Protection.RESIZE_INTERVAL or not is_asked:
                yield protection


def _first(count: int, by_end: Mapping[int, Sequence[Candidate]], trial: Trial) -> int:
    """Of so many positions the first at which there is room, by halves: who is gone at one of them is gone
    at all that follow. `count` if there is none."""
    low, high, freed = 0, count, 0
    while low < high:
        middle = (low + high) // 2
        trial.free(*_between(by_end, freed, middle + 1))
        trial.hold(*_between(by_end, middle + 1, freed))
        freed = middle + 1
        if trial.place() is not None:
            high = middle
        else:
            low = middle + 1
    trial.reset()
    return low


def _between(by_end: Mapping[int, Sequence[Candidate]], first: int, last: int) -> Iterator[Candidate]:
    return (candidate for at in range(first, last) for candidate in by_end.get(at, ()))


def _names(units: Iterable[RunningUnit]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(unit.public_id for unit in sorted(units, key=lambda unit: unit.id)))


def _held(unit: RunningUnit, amount: str) -> int:
    if amount == "gpus":
        return sum(len(place.devices) for place in unit.places)
    return unit.usage.get(_RESOURCES[amount], 0)
