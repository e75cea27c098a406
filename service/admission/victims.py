"""Which units give way to a claimant: those of the lowest priority with which it can be done at all, then
those that lose least, then the newest; never more than are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from service.admission.cheapest import Found, Veto, find_cheapest
from service.admission.entitlement import may_take
from service.admission.giving_back import give_back, take_in_order
from service.admission.trial import Candidate, Trial

_Key = Callable[[Candidate], tuple[object, ...]]


def find_victims(trial: Trial, candidates: Sequence[Candidate], veto: Veto) -> Found | None:
    """None if nobody is entitled to what is needed, or if it would not be enough. Leaves the trial without
    anybody gone."""
    # 1. Whoever could be taken at all: what the own queue gives makes the most room for other rights.
    entitled = _entitled(trial, candidates)
    if not entitled:
        return None
    # 2. The lowest highest priority with which there is room, then the least loss; one priority more as
    #    long as those that make room may not all be taken together.
    for priority in sorted({candidate.unit.priority for candidate in entitled}):
        within = [candidate for candidate in entitled if candidate.unit.priority <= priority]
        if not _makes_room(trial, within):
            continue
        find = find_cheapest if len(within) <= trial.most_exact else _of_many
        found = find(trial, within, veto)
        if found is not None:
            return found
        if trial.tests_left <= 0:
            return None
    return None


def _entitled(trial: Trial, candidates: Sequence[Candidate]) -> list[Candidate]:
    queue_id = trial.claimant.row.queue_id
    own = [each for each in candidates if each.unit.queue_id == queue_id]
    found = [each for each in own if may_take(trial.claimant, each.unit, trial.tree)]
    for candidate in found:
        trial.free(candidate)
    others = [
        each
        for each in candidates
        if each.unit.queue_id != queue_id and may_take(trial.claimant, each.unit, trial.tree)
    ]
    trial.reset()
    return found + others


def _makes_room(trial: Trial, candidates: Sequence[Candidate]) -> bool:
    for candidate in candidates:
        trial.free(candidate)
    has_room = trial.place() is not None
    trial.reset()
    return has_room


def _of_many(trial: Trial, candidates: Sequence[Candidate], veto: Veto) -> Found | None:
    """The best of what some orders lead to."""
    best: Found | None = None
    for key in _orders(candidates):
        taken = take_in_order(trial, sorted(candidates, key=key))
        found = give_back(trial, taken, veto) if taken else None
        if found is not None and (best is None or found.cost < best.cost):
            best = found
        if trial.tests_left <= 0:
            break
    return best


def _orders(candidates: Sequence[Candidate]) -> Iterator[_Key]:
    """The cheapest first; the cheapest for what they hold; and one node after the other, those first that
    are cheapest to clear."""
    yield lambda each: (each.cost, *_newest(each))
    yield lambda each: (each.cost / max(1, _gpus(each)), *_newest(each))
    by_node: dict[int, int] = {}
    for node_id, cost in chain.from_iterable(_node_costs(each) for each in candidates):
        by_node[node_id] = by_node.get(node_id, 0) + cost
    yield lambda each: (min((by_node[taken.node_id], taken.node_id) for taken in each.frees), *_newest(each))


def _newest(candidate: Candidate) -> tuple[float, int]:
    submitted_at, unit_id = candidate.age
    return -submitted_at.timestamp(), -unit_id


def _gpus(candidate: Candidate) -> int:
    return sum(len(taken.devices) for taken in candidate.frees)


def _node_costs(candidate: Candidate) -> Iterator[tuple[int, int]]:
    for taken in candidate.frees:
        yield taken.node_id, candidate.cost
