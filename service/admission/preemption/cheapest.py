"""The cheapest set of few candidates that makes room, exactly, by branch and bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from service.admission.placement.scratch import Share
from service.admission.preemption.trial import Candidate, Trial
from service.domain.preemption import Entitlement

#: So many decisions are made at most; what was found until then is the answer.
_MAX_DECISIONS = 4000

#: Whether a set may be taken for other reasons than rights: a veto by its price.
Veto = Callable[[Sequence[Candidate], Mapping[int, Entitlement]], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Victims with the right to each, and where the claimant then sits."""

    victims: tuple[Candidate, ...]
    rights: Mapping[int, Entitlement]
    places: tuple[Share, ...]

    @property
    def cost(self) -> int:
        return sum(candidate.cost for candidate in self.victims)


def find_cheapest(
    trial: Trial, candidates: Sequence[Candidate], veto: Veto, *, known: Found | None = None
) -> Found | None:
    """Of sets of equal price the one that spares the oldest. `known`: what is taken unless something costs
    less. Leaves the trial without anybody gone."""
    return _Search(trial, candidates, veto, known).run()


class _Search:
    """Decides on one candidate after the other, the dearest and oldest first, to spare it if that can
    be: what is not decided yet counts as gone, so a set that has no place has none below either. Nor is one
    of use that costs too much even if what is missing in sum were given for the least price of a GPU."""

    def __init__(
        self, trial: Trial, candidates: Sequence[Candidate], veto: Veto, known: Found | None
    ) -> None:
        self._trial = trial
        self._veto = veto
        self._order = sorted(candidates, key=lambda each: (-each.cost, each.age))
        #: The price of one of its GPUs, its position, and how many it has, the cheapest first.
        self._offers = sorted(
            (each.cost / each.gpus, position, each.gpus)
            for position, each in enumerate(self._order)
            if each.gpus
        )
        self._chosen: list[Candidate] = []
        self._best = known
        self._left = _MAX_DECISIONS

    def run(self) -> Found | None:
        missing = self._trial.missing_gpus()
        for candidate in self._order:
            self._trial.free(candidate)
        places = self._trial.place()
        if places is not None:
            self._decide(0, cost=0, missing=missing, places=places)
        self._trial.reset()
        return self._best

    def _decide(self, position: int, *, cost: int, missing: int, places: tuple[Share, ...]) -> None:
        self._left -= 1
        if self._left < 0 or self._trial.tests_left <= 0:
            return
        if self._is_beaten(position, cost=cost, missing=missing):
            return
        if position == len(self._order):
            self._take(places)
            return
        candidate = self._order[position]
        self._trial.hold(candidate)
        without = self._trial.place()
        if without is not None:
            self._decide(position + 1, cost=cost, missing=missing, places=without)
        self._trial.free(candidate)
        self._chosen.append(candidate)
        cost, missing = cost + candidate.cost, missing - candidate.gpus
        self._decide(position + 1, cost=cost, missing=missing, places=places)
        self._chosen.pop()

    def _is_beaten(self, position: int, *, cost: int, missing: int) -> bool:
        """Whether nothing below costs less than the best, of those from `position` on."""
        if self._best is None:
            return False
        least = float(cost)
        for price, at, gpus in self._offers:
            if missing <= 0:
                break
            if at >= position:
                least += price * min(gpus, missing)
                missing -= gpus
        return least >= self._best.cost

    def _take(self, places: tuple[Share, ...]) -> None:
        rights = self._trial.rights()
        if rights is not None and not self._veto(self._chosen, rights):
            self._best = Found(victims=tuple(self._chosen), rights=rights, places=places)
