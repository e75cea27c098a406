"""The best victims for one claimant, for whichever models it takes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from service.admission.nodes.query import ShapeQuery
from service.admission.policy import Policy
from service.admission.preemption.candidates import Candidates
from service.admission.preemption.cheapest import Found
from service.admission.preemption.trial import Candidate, Trial
from service.admission.preemption.usages import usages_of
from service.admission.preemption.victims import find_victims
from service.admission.quota.entitlement import Claimant
from service.admission.resident import World
from service.admission.world import PendingUnit
from service.domain.preemption import Entitlement

#: How often places are sought for one claimant.
_TESTS_OF_CLAIMANT = 600
#: To imagine so many units gone, and back, takes about as long as to seek places once.
_UNITS_OF_TEST = 2


class Choice(NamedTuple):
    """`has_room`: what leaves anyway makes room enough, so nobody else has to go. `found` None: nobody may
    be taken, or it would not be enough."""

    found: Found | None
    claimant: Claimant
    has_room: bool = False


class Chooser:
    """On the capacity and the quotas as they stand when it is asked. `tests_left` bounds how often places are
    sought for all claimants together, and with it how many units are looked at."""

    def __init__(self, world: World, policy: Policy, *, tests: int, most_exact: int) -> None:
        self._world = world
        self._policy = policy
        self._most_exact = most_exact
        self.tests_left = tests

    def choose(self, row: PendingUnit, query: ShapeQuery, candidates: Candidates) -> Choice:
        """The best for any models that the claimant could take; of equals for those that it prefers."""
        best = Choice(None, candidates.claimant(row, {}))
        for usage in usages_of(query):
            claimant = candidates.claimant(row, usage)
            trial = self.trial(claimant, query)
            before = trial.tests_left
            has_room = trial.place() is not None
            found = None if has_room else self._find(trial, query, candidates)
            self.tests_left -= before - trial.tests_left
            if has_room:
                return Choice(None, claimant, has_room=True)
            if _is_better(found, best.found):
                best = Choice(found, claimant)
        return best

    def note_looks(self, units: int) -> None:
        """So many were imagined to be gone."""
        self.tests_left -= units // _UNITS_OF_TEST

    def trial(self, claimant: Claimant, query: ShapeQuery) -> Trial:
        """Of one claimant."""
        return Trial(
            self._world.capacity,
            self._world.quota,
            query=query,
            claimant=claimant,
            tests=min(_TESTS_OF_CLAIMANT, self.tests_left),
            most_exact=self._most_exact,
        )

    def _find(self, trial: Trial, query: ShapeQuery, candidates: Candidates) -> Found | None:
        """The surplus of elastic units, if that alone will do; else some of them may go whole, if that costs
        less."""
        parts = candidates.of(trial.claimant, query, is_whole=False)
        self.note_looks(len(parts))
        found = find_victims(trial, parts, self._is_too_dear)
        if all(candidate.of is None for candidate in parts):
            return found
        whole = candidates.of(trial.claimant, query, is_whole=True)
        lowest = min((each.unit.priority for each in whole), default=None)
        if lowest is None or (found is not None and _is_surplus_of(found, lowest)):
            return found
        return self._with_some_whole(trial, found, parts=parts, whole=whole)

    def _with_some_whole(
        self, trial: Trial, found: Found | None, *, parts: Sequence[Candidate], whole: Sequence[Candidate]
    ) -> Found | None:
        """The best of what is found if all elastic units go whole, or one of them, and then if one more
        does, or one less, for as long as that is better. `found`: if none does."""
        surplus = {each.of.id for each in parts if each.of is not None}
        ids = [each.unit.id for each in sorted(whole, key=lambda each: each.cost) if each.unit.id in surplus]
        best, going = found, frozenset[int]()
        for those in (frozenset(ids), *(frozenset({each}) for each in ids)):
            found = find_victims(trial, _mixed(parts, whole, those), self._is_too_dear)
            if _is_better(found, best):
                best, going = found, those
        position = 0
        while best is not None and position < len(ids):
            those = going ^ {ids[position]}
            found = find_victims(trial, _mixed(parts, whole, those), self._is_too_dear)
            position += 1
            if _is_better(found, best):
                best, going, position = found, those, 0
        return best

    def _is_too_dear(self, victims: Sequence[Candidate], rights: Mapping[int, Entitlement]) -> bool:
        """Price vetoes the sharing out of what is borrowed, never the reclaim of nominal quota."""
        bound = self._policy.fair_share_price_seconds
        if bound is None:
            return False
        fair = [each.cost for each in victims if rights[each.unit.id] is Entitlement.FAIR_SHARE]
        return sum(fair) > bound * 1000


def rank_of(found: Found) -> tuple[int, int]:
    """The less the better: the highest priority that is touched, then what is lost."""
    return max(each.unit.priority for each in found.victims), found.cost


def _is_better(found: Found | None, best: Found | None) -> bool:
    """Than nothing, or than what is known."""
    return found is not None and (best is None or rank_of(found) < rank_of(best))


def _is_surplus_of(found: Found, priority: int) -> bool:
    """Whether nothing but surplus of units of no higher priority is taken."""
    return all(each.of is not None and each.unit.priority <= priority for each in found.victims)


def _mixed(parts: Sequence[Candidate], whole: Sequence[Candidate], those: Collection[int]) -> list[Candidate]:
    """Of `those` the whole units, of others the surplus, if there is some."""
    mixed = [each for each in parts if each.of is None or each.of.id not in those]
    return mixed + [each for each in whole if each.unit.id in those]
