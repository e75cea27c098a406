"""Victims by trying every set of them, written without a look at the planner: slow and plainly right.

Rules: cohorts of one level that lend everything. The claimant sits whole on what is free and what its victims
hold, within the quota of its queue and cohort as it is without them. Each victim may be taken by some right
when those before it in some order are gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import permutations, product
from math import inf

from service.admission.resident import World
from service.admission.world import PendingUnit, RunningUnit
from service.domain.queue import PreemptWithin, Reclaim
from service.domain.shape import Shape
from tests.unit.admission.oracle import can_place

Held = dict[int, dict[str, int]]
#: The highest priority of a victim, and the sum of prices.
Cost = tuple[int, float]


def best_victims(world: World, row: PendingUnit, prices: Mapping[int, float]) -> Cost | None:
    """What the cheapest victims cost; None if no set of them may be taken and makes room, (0, 0) if nobody
    has to go."""
    units = sorted((unit for unit in world.running.values() if unit.is_preemptible), key=lambda unit: unit.id)
    shape, ways = world.shapes[row.shape_id], list(_ways(world, world.shapes[row.shape_id]))
    if any(_fits(world, row, shape, way, ()) for way in ways):
        return (0, 0)
    if not any(_sits(world, shape, way, units) for way in ways):
        return None
    for chosen in _sets_by_cost(units, prices):
        for way in ways:
            if _may_take_all(world, row, way, chosen) and _fits(world, row, shape, way, chosen):
                return _cost(chosen, prices)
    return None


def _sets_by_cost(units: Sequence[RunningUnit], prices: Mapping[int, float]) -> Iterator[list[RunningUnit]]:
    """Every set that is not empty, the cheapest first; sets of one highest priority after the other."""
    for priority in sorted({unit.priority for unit in units}):
        within = sorted((u for u in units if u.priority <= priority), key=lambda unit: prices[unit.id])
        # A set is known by its positions; each grows by the next position, or has its last one moved on.
        heap: list[tuple[float, tuple[int, ...]]] = [(prices[within[0].id], (0,))]
        while heap:
            cost, at = heappop(heap)
            chosen = [within[position] for position in at]
            if any(unit.priority == priority for unit in chosen):
                yield chosen
            if (following := at[-1] + 1) < len(within):
                more = prices[within[following].id]
                heappush(heap, (cost + more, (*at, following)))
                heappush(heap, (cost + more - prices[within[at[-1]].id], (*at[:-1], following)))


def _cost(chosen: Sequence[RunningUnit], prices: Mapping[int, float]) -> Cost:
    return max(unit.priority for unit in chosen), round(sum(prices[unit.id] for unit in chosen), 3)


def _ways(world: World, shape: Shape) -> Iterator[dict[str, int]]:
    """GPUs by model, for every choice of a model for each member."""
    known = sorted({device.model for node in world.configuration.nodes.values() for device in node.devices})
    members = [
        [(model, role.requests.gpus) for model in (role.models or known)]
        for role in shape.roles
        for _ in range(role.count if shape.is_gang else 1)
        if role.requests.gpus
    ]
    seen = set()
    for choice in product(*members):
        way: dict[str, int] = {}
        for model, gpus in choice:
            way[model] = way.get(model, 0) + gpus
        if (key := tuple(sorted(way.items()))) not in seen:
            seen.add(key)
            yield way


def _fits(
    world: World, row: PendingUnit, shape: Shape, way: Mapping[str, int], chosen: Sequence[RunningUnit]
) -> bool:
    held = _held(world, chosen)
    if not row.is_preemptible and not _is_within_nominal(world, row.queue_id, way, held):
        return False
    return all(_room(world, row.queue_id, model, held) >= gpus for model, gpus in way.items()) and _sits(
        world, shape, way, chosen
    )


def _sits(world: World, shape: Shape, way: Mapping[str, int], chosen: Sequence[RunningUnit]) -> bool:
    gone = {unit.id for unit in chosen}
    places = [
        (place, world.shapes[unit.shape_id].roles[place.role].requests)
        for unit in world.running.values()
        if unit.id not in gone
        for place in unit.places
    ]
    models = {device.model for node in world.configuration.nodes.values() for device in node.devices}
    caps = {model: way.get(model, 0) for model in models}
    return can_place(shape, world.configuration, places, caps)


def _held(world: World, chosen: Sequence[RunningUnit]) -> Held:
    held: Held = {queue_id: {} for queue_id in world.configuration.queues}
    gone = {unit.id for unit in chosen}
    for unit in world.running.values():
        if unit.id not in gone:
            for model, amount in unit.usage.items():
                held[unit.queue_id][model] = held[unit.queue_id].get(model, 0) + amount
    return held


def _nominal(world: World, queue_id: int, model: str) -> int:
    return (world.configuration.queues[queue_id].quota.nominal or {}).get(model, 0)


def _cohort(world: World, queue_id: int) -> list[int]:
    cohort_id = world.configuration.queues[queue_id].cohort_id
    if cohort_id is None:
        return [queue_id]
    return [each.id for each in world.configuration.queues.values() if each.cohort_id == cohort_id]


def _room(world: World, queue_id: int, model: str, held: Held) -> int:
    queue, members = world.configuration.queues[queue_id], _cohort(world, queue_id)
    if queue.quota.nominal is None and queue.cohort_id is None:
        return 1000
    whole = sum(_nominal(world, each, model) for each in members)
    room = whole - sum(held[each].get(model, 0) for each in members)
    if (borrowing := queue.quota.borrowing.get(model)) is not None:
        room = min(room, _nominal(world, queue_id, model) + borrowing - held[queue_id].get(model, 0))
    return room


def _is_within_nominal(world: World, queue_id: int, way: Mapping[str, int], held: Held) -> bool:
    queue = world.configuration.queues[queue_id]
    if queue.quota.nominal is None and queue.cohort_id is None:
        return True
    return all(
        held[queue_id].get(model, 0) + gpus <= _nominal(world, queue_id, model) for model, gpus in way.items()
    )


def _may_take_all(
    world: World, row: PendingUnit, way: Mapping[str, int], chosen: Sequence[RunningUnit]
) -> bool:
    """Those of the own queue first: they only give. Then queue by queue: others do not help each other."""
    own = [unit for unit in chosen if unit.queue_id == row.queue_id]
    policy = world.configuration.queues[row.queue_id].policy
    if own and policy.preempt_within is PreemptWithin.NEVER:
        return False
    if any(unit.priority >= row.priority for unit in own):
        return False
    others = {unit.queue_id for unit in chosen} - {row.queue_id}
    return all(
        any(
            _in_turn(world, row, way, own, order)
            for order in permutations([unit for unit in chosen if unit.queue_id == queue_id])
        )
        for queue_id in others
    )


def _in_turn(
    world: World,
    row: PendingUnit,
    way: Mapping[str, int],
    own: Sequence[RunningUnit],
    order: Sequence[RunningUnit],
) -> bool:
    return all(
        _may_take(world, row, way, victim, [*own, *order[:position]]) for position, victim in enumerate(order)
    )


def _may_take(
    world: World, row: PendingUnit, way: Mapping[str, int], victim: RunningUnit, gone: Sequence[RunningUnit]
) -> bool:
    reclaim = world.configuration.queues[row.queue_id].policy.reclaim
    if reclaim is Reclaim.NEVER or victim.queue_id not in _cohort(world, row.queue_id):
        return False
    before, after = _held(world, gone), _held(world, [*gone, victim])
    is_above = any(
        before[victim.queue_id].get(model, 0) > _nominal(world, victim.queue_id, model)
        for model in way
        if victim.usage.get(model)
    )
    is_due = reclaim is not Reclaim.LOWER_PRIORITY or victim.priority < row.priority
    if is_above and is_due and _is_within_nominal(world, row.queue_id, way, before):
        return True
    if reclaim is not Reclaim.FAIR_SHARE:
        return False
    if any(
        after[victim.queue_id].get(model, 0) < _nominal(world, victim.queue_id, model)
        for model, amount in victim.usage.items()
        if amount and model in _models(world)
    ):
        return False
    with_it = dict(after[row.queue_id])
    for model, gpus in way.items():
        with_it[model] = with_it.get(model, 0) + gpus
    mine = _share(world, row.queue_id, with_it)
    return mine < inf and mine <= _share(world, victim.queue_id, after[victim.queue_id])


def _models(world: World) -> set[str]:
    return {device.model for node in world.configuration.nodes.values() for device in node.devices}


def _share(world: World, queue_id: int, held: Mapping[str, int]) -> float:
    """Weight 0 is an infinite share, whatever is held."""
    weight = world.configuration.queues[queue_id].policy.weight
    if weight == 0:
        return inf
    whole = {
        model: sum(_nominal(world, each, model) for each in _cohort(world, queue_id))
        for model in _models(world)
    }
    return max((held.get(model, 0) / whole[model] for model in whole if whole[model]), default=0.0) / weight
