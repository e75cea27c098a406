"""The best victims for one claimant, for whichever models it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


class Choice(NamedTuple):
    """`has_room`: what leaves anyway makes room enough, so nobody else has to go. `found` None: nobody may
    be taken, or it would not be enough."""

    found: Found | None
    claimant: Claimant
    has_room: bool = False


class Chooser:
    """On the capacity and the quotas as they stand when it is asked. `tests_left` bounds how often places are
    sought for all claimants together."""

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
            if found is not None and (best.found is None or rank_of(found) < rank_of(best.found)):
                best = Choice(found, claimant)
        return best

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
        """The surplus of elastic units before any of them goes whole, unless that would touch somebody of
        higher priority."""
        parts = candidates.of(trial.claimant, query, is_whole=False)
        found = find_victims(trial, parts, self._is_too_dear)
        if all(candidate.of is None for candidate in parts):
            return found
        whole = candidates.of(trial.claimant, query, is_whole=True)
        lowest = min((each.unit.priority for each in whole), default=None)
        if lowest is None or (found is not None and rank_of(found)[0] <= lowest):
            return found
        other = find_victims(trial, whole, self._is_too_dear)
        return min((each for each in (found, other) if each is not None), key=rank_of, default=None)

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
