"""The cheapest set of few candidates that makes room, exactly, by branch and bound."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from service.admission.placement.scratch import Share
from service.admission.preemption.trial import Candidate, Trial
from service.domain.preemption import Entitlement

#: So many decisions are made at most; what was found until then is the answer.
_MAX_DECISIONS = 4000

#: The price of one, a position, and how many.
_Offer = tuple[float, int, int]

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
    be: what is not decided yet counts as gone, so a set that has no place has none below either. Nor has one
    of which some may not be taken even if all of the own queue who are not decided go, nor one that costs too
    much even if what is missing in sum were given for the least price of each resource."""

    def __init__(
        self, trial: Trial, candidates: Sequence[Candidate], veto: Veto, known: Found | None
    ) -> None:
        self._trial = trial
        self._veto = veto
        self._order = sorted(candidates, key=lambda each: (-each.cost, each.age))
        queue_id = trial.claimant.row.queue_id
        self._is_own = [each.unit.queue_id == queue_id for each in self._order]
        self._chosen: list[Candidate] = []
        self._chosen_others = 0
        self._best = known
        self._left = _MAX_DECISIONS

    def run(self) -> Found | None:
        missing = self._trial.missing()
        self._offers = {amount: _offers(self._order, amount) for amount in missing}
        self._trial.free(*self._order)
        places = self._trial.place()
        if places is not None:
            self._decide(0, cost=0, missing=missing, places=places)
        self._trial.reset()
        return self._best

    def _decide(
        self, position: int, *, cost: int, missing: Mapping[str, int], places: tuple[Share, ...]
    ) -> None:
        self._left -= 1
        if self._left < 0 or self._trial.tests_left <= 0:
            return
        if self._is_beaten(position, cost=cost, missing=missing):
            return
        if position == len(self._order):
            self._take(places)
            return
        candidate = self._order[position]
        # 1. Without it.
        self._trial.hold(candidate)
        if not self._is_own[position] or self._may_take_chosen(position + 1):
            without = self._trial.place()
            if without is not None:
                self._decide(position + 1, cost=cost, missing=missing, places=without)
        self._trial.free(candidate)
        # 2. With it.
        self._chosen.append(candidate)
        self._chosen_others += not self._is_own[position]
        if self._is_own[position] or self._may_take_chosen(position + 1):
            left = {name: amount - candidate.gives(name) for name, amount in missing.items()}
            self._decide(position + 1, cost=cost + candidate.cost, missing=left, places=places)
        self._chosen_others -= not self._is_own[position]
        self._chosen.pop()

    def _may_take_chosen(self, position: int) -> bool:
        """Whether those may be taken that are chosen, if all from `position` on that are of the claimant's
        own queue go too."""
        if not self._chosen_others:
            return True
        own = (self._order[at] for at in range(position, len(self._order)) if self._is_own[at])
        return self._trial.rights_to([*self._chosen, *own]) is not None

    def _is_beaten(self, position: int, *, cost: int, missing: Mapping[str, int]) -> bool:
        """Whether nothing below costs less than the best, of those from `position` on."""
        if self._best is None:
            return False
        bound = self._best.cost - cost
        return bound <= 0 or any(
            _least(self._offers[name], amount, position) >= bound for name, amount in missing.items()
        )

    def _take(self, places: tuple[Share, ...]) -> None:
        rights = self._trial.rights()
        if rights is not None and not self._veto(self._chosen, rights):
            self._best = Found(victims=tuple(self._chosen), rights=rights, places=places)


def _offers(order: Sequence[Candidate], name: str) -> list[_Offer]:
    """The price of one of it, the position, and how many, the cheapest first."""
    return sorted(
        (each.cost / amount, position, amount)
        for position, each in enumerate(order)
        if (amount := each.gives(name))
    )


def _least(offers: Iterable[_Offer], missing: int, position: int) -> float:
    """What so many cost at least, of those from `position` on."""
    least = 0.0
    for price, at, amount in offers:
        if missing <= 0:
            break
        if at >= position:
            least += price * min(amount, missing)
            missing -= amount
    return least
