"""Victims out of many candidates: taken in an order until there is room, then given back where the others
make room alone."""

from __future__ import annotations

from collections.abc import Sequence

from service.admission.cheapest import Found, Veto, find_cheapest
from service.admission.entitlement import may_take
from service.admission.trial import Candidate, Trial


def take_in_order(trial: Trial, order: Sequence[Candidate]) -> list[Candidate]:
    """The first of `order` that may be taken and together make room; empty if all of them do not. Leaves
    the trial without anybody gone."""
    taken: list[Candidate] = []
    next_test = 1
    for candidate in order:
        if may_take(trial.claimant, candidate.unit, trial.tree) is None:
            continue
        trial.free(candidate)
        taken.append(candidate)
        if len(taken) >= next_test:
            if trial.place() is not None:
                break
            next_test = max(len(taken) + 1, len(taken) * 5 // 4)
    has_room = trial.place() is not None
    trial.reset()
    return taken if has_room else []


def give_back(trial: Trial, taken: Sequence[Candidate], veto: Veto) -> Found | None:
    """As few of `taken` as will do: the highest priority, the dearest and the oldest are spared first."""
    if len(taken) <= trial.most_exact:
        return find_cheapest(trial, taken, veto)
    for candidate in taken:
        trial.free(candidate)
    kept = list(taken)
    for candidate in sorted(taken, key=lambda each: (-each.unit.priority, -each.cost, each.age)):
        trial.hold(candidate)
        if trial.tests_left > 0 and trial.place() is not None and trial.rights() is not None:
            kept.remove(candidate)
        else:
            trial.free(candidate)
    places, rights = trial.place(), trial.rights()
    trial.reset()
    if places is None or rights is None or veto(kept, rights):
        return None
    return Found(victims=tuple(kept), rights=rights, places=places)
