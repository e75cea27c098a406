"""Victims out of many candidates: taken in an order until there is room, then given back where the others
make room alone."""

from __future__ import annotations

from collections.abc import Sequence

from service.admission.preemption.cheapest import Found, Veto, find_cheapest
from service.admission.preemption.trial import Candidate, Trial


def take_in_order(trial: Trial, order: Sequence[Candidate]) -> list[Candidate]:
    """The first of `order` that may be taken and together make room; empty if all of them do not. Leaves
    the trial without anybody gone."""
    taken: list[Candidate] = []
    has_room, refused = False, list(order)
    while refused and not has_room:
        # What is refused may be taken when others have gone, as what the own queue gives makes it entitled.
        before = len(taken)
        refused, has_room = _take(trial, refused, taken)
        if len(taken) == before:
            break
    trial.reset()
    return taken if has_room else []


def _take(trial: Trial, order: Sequence[Candidate], taken: list[Candidate]) -> tuple[list[Candidate], bool]:
    """Those that may not be taken yet, and whether there is room."""
    refused: list[Candidate] = []
    next_test = len(taken) + 1
    for candidate in order:
        if trial.right_to(candidate) is None and trial.rights_to([*taken, candidate]) is None:
            refused.append(candidate)
            continue
        trial.free(candidate)
        taken.append(candidate)
        if len(taken) >= next_test:
            if trial.place() is not None:
                return refused, True
            next_test = max(len(taken) + 1, len(taken) * 5 // 4)
    return refused, trial.place() is not None


def give_back(
    trial: Trial, taken: Sequence[Candidate], veto: Veto, *, known: Found | None = None
) -> Found | None:
    """As few of `taken` as will do: the highest priority, the dearest and the oldest are spared first.
    `known`: what is taken unless that costs less."""
    if len(taken) <= trial.most_exact:
        return find_cheapest(trial, taken, veto, known=known)
    found = _spare(trial, taken, veto)
    return known if found is None or (known is not None and known.cost <= found.cost) else found


def _spare(trial: Trial, taken: Sequence[Candidate], veto: Veto) -> Found | None:
    trial.free(*taken)
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
