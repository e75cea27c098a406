"""The cheapest victims among many, without a look at the planner: for every way to sit, the least that covers
what is missing on each node, by dynamic programming.

Rules: nodes with GPUs of one model, of which alone anything is short, and a cohort whose quota suffices for
all; what others hold is reclaimed, never shared out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations_with_replacement, product
from math import inf
from typing import NamedTuple

from service.admission.resident import World
from service.admission.world import Node, PendingUnit, RunningUnit
from service.domain.queue import PreemptWithin, Reclaim
from service.domain.shape import Shape
from tests.unit.admission.preemption_oracle import Cost

#: GPUs by node, in the order of nodes.
Amounts = tuple[int, ...]


class _Victim(NamedTuple):
    priority: int
    price: float
    gpus: Amounts


class _Source(NamedTuple):
    """A queue that gives `victims`, each only while it has given less than `most`."""

    most: float
    victims: Sequence[_Victim]


def cheapest_cover(world: World, row: PendingUnit, prices: Mapping[int, float]) -> Cost | None:
    """None if nobody who may be taken makes room, (0, 0) if nobody has to go."""
    nodes = sorted(world.configuration.nodes.values(), key=lambda node: node.id)
    free, shape = _free(world, nodes), world.shapes[row.shape_id]
    missing = {
        tuple(max(0, need - have) for need, have in zip(needs, free, strict=True))
        for needs in _needs(shape, nodes)
    }
    if any(not sum(deficit) for deficit in missing):
        return 0, 0
    own, *others = _sources(world, row, nodes, prices)
    queue = world.configuration.queues[row.queue_id]
    # So much its own queue has to give before the claimant stays within its nominal quota.
    over = max(0, sum(_held(world, queue.id, nodes)) + shape.total().gpus - (queue.quota.nominal or {})["ma"])
    for priority in sorted({victim.priority for each in (own, *others) for victim in each.victims}):
        within = [_up_to(each, priority) for each in (own, *others)]
        best = inf
        for deficit in sorted(missing, key=sum):
            best = min(best, _cover(deficit, within, over=over, best=best))
        if best < inf:
            return priority, round(best, 3)
    return None


def _up_to(source: _Source, priority: int) -> _Source:
    return _Source(source.most, [each for each in source.victims if each.priority <= priority])


def _cover(deficit: Amounts, sources: Sequence[_Source], *, over: int, best: float) -> float:
    """The least price at which nothing is missing any more; infinite if that is not less than `best`."""
    own, *others = sources
    nothing = (0,) * len(deficit)
    given = _give({deficit: 0.0}, own, at_least=over, best=best)
    found = min((cost for (left, _), cost in given.items() if left == nothing), default=inf)
    states = {left: cost for (left, taken), cost in given.items() if taken >= over}
    for source in others:
        given = _give(states, source, at_least=0, best=best)
        states = {}
        for (left, _), cost in given.items():
            states[left] = min(states.get(left, inf), cost)
    return min(found, states.get(nothing, inf))


def _give(
    states: Mapping[Amounts, float], source: _Source, *, at_least: int, best: float
) -> dict[tuple[Amounts, int], float]:
    """What one queue gives, the largest last: what is missing then and how much it gave, at which price."""
    bound = at_least if source.most == inf else int(source.most)
    given = {(left, 0): cost for left, cost in states.items()}
    for victim in sorted(source.victims, key=lambda each: sum(each.gpus)):
        for (left, taken), cost in list(given.items()):
            rest = tuple(max(0, need - gpus) for need, gpus in zip(left, victim.gpus, strict=True))
            key = rest, min(taken + sum(victim.gpus), bound)
            if taken < source.most and key != (left, taken) and cost + victim.price < best:
                given[key] = min(given.get(key, inf), cost + victim.price)
    return given


def _sources(
    world: World, row: PendingUnit, nodes: Sequence[Node], prices: Mapping[int, float]
) -> Iterator[_Source]:
    """The own queue first."""
    policy = world.configuration.queues[row.queue_id].policy
    for queue in sorted(world.configuration.queues.values(), key=lambda each: each.id != row.queue_id):
        is_own = queue.id == row.queue_id
        is_open = (
            (policy.preempt_within is not PreemptWithin.NEVER)
            if is_own
            else (policy.reclaim is not Reclaim.NEVER)
        )
        is_by_priority = is_own or policy.reclaim is Reclaim.LOWER_PRIORITY
        victims = [
            _Victim(unit.priority, prices[unit.id], _gpus(unit, nodes))
            for unit in world.running.values()
            if is_open
            and unit.queue_id == queue.id
            and unit.is_preemptible
            and (unit.priority < row.priority or not is_by_priority)
        ]
        excess = sum(_held(world, queue.id, nodes)) - (queue.quota.nominal or {})["ma"]
        yield _Source(inf if is_own else max(0, excess), victims)


def _held(world: World, queue_id: int, nodes: Sequence[Node]) -> Amounts:
    units = [_gpus(unit, nodes) for unit in world.running.values() if unit.queue_id == queue_id]
    return tuple(sum(unit[index] for unit in units) for index in range(len(nodes)))


def _gpus(unit: RunningUnit, nodes: Sequence[Node]) -> Amounts:
    return tuple(
        sum(len(place.devices) for place in unit.places if place.node_id == node.id) for node in nodes
    )


def _free(world: World, nodes: Sequence[Node]) -> Amounts:
    held = [_gpus(unit, nodes) for unit in world.running.values()]
    return tuple(len(node.devices) - sum(each[index] for each in held) for index, node in enumerate(nodes))


def _needs(shape: Shape, nodes: Sequence[Node]) -> Iterator[Amounts]:
    """What the gang takes of each node, for every way to seat its members."""
    domains: dict[str, list[int]] = {}
    for index, node in enumerate(nodes):
        domains.setdefault("" if shape.required is None else node.labels[shape.required], []).append(index)
    for domain in domains.values():
        seats = [list(combinations_with_replacement(domain, role.count)) for role in shape.roles]
        for chosen in product(*seats):
            need = [0] * len(nodes)
            for role, at in zip(shape.roles, chosen, strict=True):
                for index in at:
                    need[index] += role.requests.gpus
            if all(amount <= len(node.devices) for amount, node in zip(need, nodes, strict=True)):
                yield tuple(need)
