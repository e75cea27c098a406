"""What more seats cost, node by node: who gives way for the members of one role that sit in one domain, and a
price below which nobody could make room for them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from math import inf
from typing import NamedTuple

from service.admission.nodes.field import Field, Membership, Stock
from service.admission.nodes.query import RoleQuery, ShapeQuery
from service.admission.nodes.seats import is_plain, seats_now, seats_on
from service.admission.nodes.topology import Domain
from service.admission.preemption.trial import Candidate

#: Of so many on one node every set is weighed.
_MOST_WEIGHED = 6


class Priced(NamedTuple):
    """`those`: who makes room in one domain by the count of seats; `cost`: of them; `least`: for
    less it cannot be done in this domain."""

    least: float
    cost: float
    those: tuple[Candidate, ...]


class _Offer(NamedTuple):
    """So many seats more on one node if these go, and the part of their price that is counted here.
    `is_least`: no others give so many for less."""

    seats: int
    cost: float
    those: tuple[Candidate, ...]
    is_least: bool = True


class _Step(NamedTuple):
    """From one offer of a node to the next that is worth it."""

    slope: float
    node_id: int
    seats: int
    cost: float
    to: _Offer


def priced(query: ShapeQuery, candidates: Sequence[Candidate]) -> list[Priced]:
    """By domain in which so many could give way that there are seats enough, the cheapest first. Empty also
    where seats alone do not decide, or there are enough already."""
    if not is_plain(query):
        return []
    (role,), offers = query.roles, dict[Domain, dict[int, list[_Offer]]]()
    field = role.fields[0]
    for node_id, there in _by_node(candidates).items():
        membership = field.members.get(node_id)
        if membership is not None and membership.state.is_available:
            found = _offers(role, membership, there)
            offers.setdefault(membership.stock.domain, {})[node_id] = found
    # Where there are seats already, those who go give nothing but quota.
    missing = {domain: role.count - _seats(role, field, stock) for domain, stock in field.stocks.items()}
    if any(seats <= 0 for seats in missing.values()):
        return []
    prices = []
    for domain, by_node in offers.items():
        price = _price(by_node, missing[domain])
        if price is not None:
            prices.append((price.cost, domain, price))
    return [price for _, _, price in sorted(prices, key=lambda each: each[:2])]


def _by_node(candidates: Sequence[Candidate]) -> Mapping[int, list[tuple[Candidate, int]]]:
    """With the position of what each frees there."""
    found: dict[int, list[tuple[Candidate, int]]] = {}
    for candidate in candidates:
        for position, taken in enumerate(candidate.frees):
            found.setdefault(taken.node_id, []).append((candidate, position))
    return found


def _seats(role: RoleQuery, field: Field, stock: Stock) -> int:
    """Of the domain, no more on a node than the role has members."""
    asked = role.requests
    return sum(
        seats_now(role, field.members[node_id])
        for bucket, rows in stock.buckets.items()
        if bucket >= asked.gpus or not asked.gpus
        for _, _, node_id in rows[bisect_left(rows, (asked.cpus_milli,)) :]
    )


def _offers(role: RoleQuery, membership: Membership, there: list[tuple[Candidate, int]]) -> list[_Offer]:
    """The cheapest for each number of seats more, the fewest first."""
    gains = sorted((_gain(membership, each, at) for each, at in there), key=lambda gain: gain.order)
    now = seats_now(role, membership)
    best: dict[int, _Offer] = {}
    for chosen in _sets(gains):
        seats = _with(role, membership, chosen) - now
        cost = sum(gain.cost for gain in chosen)
        if seats > 0 and (seats not in best or cost < best[seats].cost):
            those = tuple(gain.candidate for gain in chosen)
            best[seats] = _Offer(seats, cost, those, is_least=len(gains) <= _MOST_WEIGHED)
    return [best[seats] for seats in sorted(best)]


class _Gain(NamedTuple):
    candidate: Candidate
    cost: float
    gpus: int
    cpus_milli: int
    memory_mib: int

    @property
    def order(self) -> tuple[float, float, int]:
        """The cheapest for what it gives first, then the newest."""
        amount = self.gpus or self.cpus_milli / 1000 or 1
        submitted_at, unit_id = self.candidate.age
        return self.cost / amount, -submitted_at.timestamp(), -unit_id


def _gain(membership: Membership, candidate: Candidate, position: int) -> _Gain:
    """Of what it holds on several nodes each has a part of its price."""
    taken, usable = candidate.frees[position], membership.state.usable
    gpus = sum(device in usable and device in membership.eligible for device in taken.devices)
    part = len(taken.devices) / candidate.gpus if candidate.gpus else 1 / len(candidate.frees)
    return _Gain(candidate, candidate.cost * part, gpus, taken.cpus_milli, taken.memory_mib)


def _sets(gains: Sequence[_Gain]) -> Iterator[Sequence[_Gain]]:
    if len(gains) <= _MOST_WEIGHED:
        for size in range(1, len(gains) + 1):
            yield from combinations(gains, size)
        return
    yield from (gains[:size] for size in range(1, len(gains) + 1))


def _with(role: RoleQuery, membership: Membership, chosen: Sequence[_Gain]) -> int:
    state = membership.state
    return seats_on(
        role,
        gpus=len(membership.eligible & state.free) + sum(gain.gpus for gain in chosen),
        cpus_milli=state.node.cpus_milli - state.held_cpus_milli + sum(gain.cpus_milli for gain in chosen),
        memory_mib=state.node.memory_mib - state.held_memory_mib + sum(gain.memory_mib for gain in chosen),
    )


def _price(by_node: Mapping[int, list[_Offer]], missing: int) -> Priced | None:
    """Step by step where a seat costs least; None if all of them are not enough."""
    steps = [step for node_id, offers in by_node.items() for step in _steps(node_id, offers)]
    steps.sort(key=lambda step: step[:2])
    taken: dict[int, _Offer] = {}
    left, cost = missing, 0.0
    for step in steps:
        if step.seats >= left:
            is_least = all(offer.is_least for offers in by_node.values() for offer in offers)
            least = cost + step.slope * left if is_least else 0.0
            node_id, last = _cheapest_end(by_node, taken, left)
            cost += last.cost - (taken[node_id].cost if node_id in taken else 0)
            taken[node_id] = last
            those = {each.unit.id: each for offer in taken.values() for each in offer.those}
            return Priced(least, cost, tuple(those.values()))
        taken[step.node_id] = step.to
        left, cost = left - step.seats, cost + step.cost
    return None


def _cheapest_end(
    by_node: Mapping[int, list[_Offer]], taken: Mapping[int, _Offer], left: int
) -> tuple[int, _Offer]:
    """The offer of one node that gives what is still missing."""
    best, found = inf, None
    for node_id, offers in by_node.items():
        before = taken.get(node_id, _Offer(0, 0.0, ()))
        for offer in offers:
            if offer.seats - before.seats >= left and offer.cost - before.cost < best:
                best, found = offer.cost - before.cost, (node_id, offer)
    assert found is not None, "the step that ends gives it"
    return found


def _steps(node_id: int, offers: Sequence[_Offer]) -> Iterator[_Step]:
    """Those of the lower hull: each seat more costs no less than the one before it."""
    hull = [_Offer(0, 0.0, ())]
    for offer in offers:
        while len(hull) > 1 and _slope(hull[-2], offer) <= _slope(hull[-2], hull[-1]):
            hull.pop()
        hull.append(offer)
    for before, after in pairwise(hull):
        slope = _slope(before, after)
        yield _Step(slope, node_id, after.seats - before.seats, after.cost - before.cost, after)


def _slope(one: _Offer, other: _Offer) -> float:
    return (other.cost - one.cost) / (other.seats - one.seats)
