"""Which units give way to a claimant: those of the lowest priority with which it can be done at all, then
those that lose least, then the newest; never more than are needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from service.admission.preemption.cheapest import Found, Veto, find_cheapest
from service.admission.preemption.giving_back import give_back, take_in_order
from service.admission.preemption.seat_prices import Priced, priced
from service.admission.preemption.trial import Candidate, Trial
from service.admission.quota.entitlement import Rights
from service.domain.preemption import Entitlement

_Key = Callable[[Candidate], tuple[object, ...]]

#: So many nodes are tried as the first to be cleared.
_FIRST_NODES = 2
#: In so many domains those are tried who make seats enough at the least price.
_FIRST_DOMAINS = 2
#: So often places are sought at most to find something cheaper than what is known.
_TESTS_TO_IMPROVE = 200


def find_victims(trial: Trial, candidates: Sequence[Candidate], veto: Veto) -> Found | None:
    """None if nobody is entitled to what is needed, or if it would not be enough. Leaves the trial without
    anybody gone."""
    # 1. Whoever could be taken at all: what the own queue gives makes the most room for other rights.
    could = [candidate for candidate, _ in entitled(trial, candidates)]
    if not could:
        return None
    # 2. The lowest highest priority with which there is room, then the least loss; one priority more as
    #    long as those that make room may not all be taken together.
    gone: set[int] = set()
    for priority in sorted({candidate.unit.priority for candidate in could}):
        below = [each for each in could if each.unit.priority <= priority]
        within = [candidate for candidate, _ in entitled(trial, below)]
        trial.free(*(each for each in within if each.unit.id not in gone))
        gone.update(each.unit.id for each in within)
        if trial.place() is None:
            continue
        trial.reset()
        gone.clear()
        find = find_cheapest if len(within) <= trial.most_exact else _of_many
        found = find(trial, within, veto)
        if found is not None or trial.tests_left <= 0:
            return found
    trial.reset()
    return None


def entitled(trial: Trial, candidates: Sequence[Candidate]) -> list[tuple[Candidate, Entitlement]]:
    """Those who may be taken, each by what right, when all of the own queue who may be are gone."""
    queue_id = trial.claimant.row.queue_id
    rights = Rights(trial.claimant, trial.tree)
    own = [each for each in candidates if each.unit.queue_id == queue_id]
    found = list(_with_rights(rights, own))
    for candidate, _ in found:
        rights.take(candidate.unit)
    found += _with_rights(rights, [each for each in candidates if each.unit.queue_id != queue_id])
    return found


def _with_rights(rights: Rights, candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate, Entitlement]]:
    for candidate in candidates:
        right = rights.to(candidate.unit)
        if right is not None:
            yield candidate, right


def _of_many(trial: Trial, candidates: Sequence[Candidate], veto: Veto) -> Found | None:
    """The best of what the prices of seats and some orders lead to; if nothing leads to anything, what a
    search of all finds."""
    prices = priced(trial.query, candidates)
    least = min((price.least for price in prices), default=0.0)
    best: Found | None = None
    for taken in _taken(trial, candidates, prices):
        found = give_back(trial, taken, veto) if taken else None
        if found is not None and (best is None or found.cost < best.cost):
            best = found
        if trial.tests_left <= 0 or (best is not None and best.cost <= least):
            break
    if best is None:
        return find_cheapest(trial, candidates, veto)
    return best if best.cost <= least else _improved(trial, candidates, veto, best)


def _taken(
    trial: Trial, candidates: Sequence[Candidate], prices: Sequence[Priced]
) -> Iterator[Sequence[Candidate]]:
    for price in prices[:_FIRST_DOMAINS]:
        yield take_in_order(trial, price.those)
    for key in _orders(candidates):
        yield take_in_order(trial, sorted(candidates, key=key))


def _improved(trial: Trial, candidates: Sequence[Candidate], veto: Veto, best: Found) -> Found:
    """Something that costs less, if it is found with so many tests. Nobody is in it who alone costs more."""
    spared = max(0, trial.tests_left - _TESTS_TO_IMPROVE)
    trial.tests_left -= spared
    best = _exchanged(trial, candidates, veto, best)
    cheaper = [each for each in candidates if each.cost < best.cost]
    best = find_cheapest(trial, cheaper, veto, known=best) or best
    trial.tests_left += spared
    return best


def _exchanged(trial: Trial, candidates: Sequence[Candidate], veto: Veto, best: Found) -> Found:
    """With what one node after the other has in exchange, until nothing costs less."""
    nodes, tried = deque(_ranks_of_nodes(candidates)), 0
    while tried < len(nodes) and trial.tests_left > 0:
        chosen = {each.unit.id for each in best.victims}
        there = [
            each
            for each in candidates
            if each.cost < best.cost
            and each.unit.id not in chosen
            and any(taken.node_id == nodes[0] for taken in each.frees)
        ]
        found = best
        if there:
            found = give_back(trial, [*best.victims, *there], veto, known=best) or best
        tried = 0 if found.cost < best.cost else tried + 1
        best = found
        nodes.rotate(-1)
    return best


def _orders(candidates: Sequence[Candidate]) -> Iterator[_Key]:
    """The cheapest first; the cheapest for what they hold; the largest; and one node after the other, those
    first that are cheapest to clear, beginning with each of some nodes."""
    yield lambda each: (each.cost, *_newest(each))
    yield lambda each: (-each.gpus, each.cost, *_newest(each))
    yield lambda each: (each.cost / max(1, each.gpus), *_newest(each))
    ranks = _ranks_of_nodes(candidates)
    for first in list(ranks)[:_FIRST_NODES]:
        yield partial(_by_node, ranks={**ranks, first: -1})


def _ranks_of_nodes(candidates: Sequence[Candidate]) -> dict[int, int]:
    """The first first: that which loses least for each GPU that is given back there."""
    costs: dict[int, float] = {}
    gpus: dict[int, int] = {}
    for candidate in candidates:
        for taken in candidate.frees:
            costs[taken.node_id] = costs.get(taken.node_id, 0) + candidate.cost
            gpus[taken.node_id] = gpus.get(taken.node_id, 0) + len(taken.devices)
    order = sorted(costs, key=lambda node_id: (costs[node_id] / max(1, gpus[node_id]), node_id))
    return {node_id: rank for rank, node_id in enumerate(order)}


def _by_node(candidate: Candidate, ranks: Mapping[int, int]) -> tuple[object, ...]:
    rank = min(ranks[taken.node_id] for taken in candidate.frees)
    return rank, candidate.cost, *_newest(candidate)


def _newest(candidate: Candidate) -> tuple[float, int]:
    submitted_at, unit_id = candidate.age
    return -submitted_at.timestamp(), -unit_id
