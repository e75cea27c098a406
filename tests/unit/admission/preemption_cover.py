"""The cheapest victims among many, without a look at the planner: for every way to sit, the least that covers
what is missing on each node and of each quota, by dynamic programming.

Rules: nodes with GPUs of one model each, units that hold GPUs of one model each, of which alone anything is
short, and one cohort that lends everything. What others hold is reclaimed; where there is only one model, it
may also be shared out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations_with_replacement, product
from math import inf
from typing import NamedTuple

from service.admission.resident import World
from service.admission.world import PendingUnit, Queue
from service.domain.queue import PreemptWithin, Reclaim
from service.domain.shape import Shape
from tests.unit.admission.preemption_oracle import Cost

#: GPUs by node, then by model, in the order of both.
Amounts = tuple[int, ...]


class _Victim(NamedTuple):
    priority: int
    price: float
    model: int
    gives: Amounts

    @property
    def gpus(self) -> int:
        return sum(self.gives) // 2


class _Source(NamedTuple):
    """Units of one model of another queue. They are taken one by one while more than `nominal` is held, or
    down to `least` of it."""

    queue: Queue
    model: int
    held: int
    nominal: int
    victims: Sequence[_Victim]


def cheapest_cover(world: World, row: PendingUnit, prices: Mapping[int, float]) -> Cost | None:
    """None if nobody who may be taken makes room, (0, 0) if nobody has to go."""
    case = _Case(world, row, prices)
    ways = {(case.missing(needs), case.of_models(needs)) for needs in case.needs()}
    if any(not any(missing) and case.is_within(way, (0,) * len(case.models)) for missing, way in ways):
        return 0, 0
    for priority in sorted({victim.priority for victim in case.victims()}):
        best = inf
        for missing, way in sorted(ways, key=lambda each: sum(each[0])):
            best = min(best, case.cover(missing, way, priority=priority, best=best))
        if best < inf:
            return priority, round(best, 3)
    return None


class _Case:
    def __init__(self, world: World, row: PendingUnit, prices: Mapping[int, float]) -> None:
        self._world = world
        self._row = row
        self._queue = world.configuration.queues[row.queue_id]
        self._prices = prices
        self._nodes = sorted(world.configuration.nodes.values(), key=lambda node: node.id)
        self.models = sorted({node.devices[0].model for node in self._nodes})
        self._model_at = [self.models.index(node.devices[0].model) for node in self._nodes]
        self._members = [
            each for each in world.configuration.queues.values() if each.cohort_id == self._queue.cohort_id
        ]
        self._held = {each.id: self._held_by(each.id) for each in self._members}
        self._own = self._own_victims()
        self._others = list(self._sources())

    def victims(self) -> Iterator[_Victim]:
        yield from self._own
        for source in self._others:
            yield from source.victims

    def needs(self) -> Iterator[Amounts]:
        """What the gang takes of each node, for every way to seat its members."""
        shape, nodes = self._world.shapes[self._row.shape_id], self._nodes
        for domain in self._domains(shape):
            seats = []
            for role in shape.roles:
                allowed = [at for at in domain if not role.models or self._name_at(at) in role.models]
                seats.append(list(combinations_with_replacement(allowed, role.count)))
            for chosen in product(*seats):
                need = [0] * len(nodes)
                for role, at in zip(shape.roles, chosen, strict=True):
                    for index in at:
                        need[index] += role.requests.gpus
                if all(amount <= len(node.devices) for amount, node in zip(need, nodes, strict=True)):
                    yield tuple(need)

    def missing(self, needs: Amounts) -> Amounts:
        """Of places on each node, and of what the cohort has left of each model."""
        places = (
            max(0, need - len(node.devices) + self._taken_on(node.id))
            for need, node in zip(needs, self._nodes, strict=True)
        )
        lacks = (
            max(0, need + sum(held[model] for held in self._held.values()) - self._whole(model))
            if need
            else 0
            for model, need in enumerate(self.of_models(needs))
        )
        return (*places, *lacks)

    def of_models(self, needs: Amounts) -> Amounts:
        return tuple(
            sum(need for need, at in zip(needs, self._model_at, strict=True) if at == model)
            for model in range(len(self.models))
        )

    def is_within(self, way: Amounts, given: Amounts) -> bool:
        """Whether its own quota allows the claimant when its queue has given so much; not what the cohort
        has left."""
        if not self._row.is_preemptible and not self._is_within_nominal(way, given):
            return False
        return all(
            not need or self._held[self._queue.id][model] - given[model] + need <= self._most(model)
            for model, need in enumerate(way)
        )

    def cover(self, missing: Amounts, way: Amounts, *, priority: int, best: float) -> float:
        """The least price at which nothing is missing any more; infinite if that is not less than `best`."""
        nothing, found = (0,) * len(missing), best
        by_given: dict[Amounts, dict[Amounts, float]] = {}
        own = [victim for victim in self._own if victim.priority <= priority]
        for (left, given), cost in self._given_by_own({missing: 0.0}, own, way=way, best=best).items():
            by_given.setdefault(given, {})[left] = cost
        for given, states in by_given.items():
            if not self.is_within(way, given):
                continue
            found = min(found, states.get(nothing, inf))
            after = dict(states)
            for source in self._others:
                if way[source.model]:
                    after = self._reduced(after, source, way=way, given=given, priority=priority, best=found)
            found = min(found, after.get(nothing, inf))
        return found if found < best else inf

    def _given_by_own(
        self, states: Mapping[Amounts, float], own: Sequence[_Victim], *, way: Amounts, best: float
    ) -> dict[tuple[Amounts, Amounts], float]:
        """What is missing then and how much of each model its own queue gave, at which price."""
        is_fair = self._queue.policy.reclaim is Reclaim.FAIR_SHARE
        held = self._held[self._queue.id]
        bounds = tuple(
            held[model]
            if is_fair
            else max(0, held[model] + need - self._nominal(self._queue, model))
            if need
            else 0
            for model, need in enumerate(way)
        )
        given = {(left, (0,) * len(way)): cost for left, cost in states.items()}
        for victim in own:
            for (left, gave), cost in list(given.items()):
                rest = tuple(max(0, need - gives) for need, gives in zip(left, victim.gives, strict=True))
                more = tuple(
                    min(bound, amount + (victim.gpus if model == victim.model else 0))
                    for model, (amount, bound) in enumerate(zip(gave, bounds, strict=True))
                )
                if (rest, more) != (left, gave) and cost + victim.price < best:
                    given[rest, more] = min(given.get((rest, more), inf), cost + victim.price)
        return given

    def _reduced(
        self,
        states: Mapping[Amounts, float],
        source: _Source,
        *,
        way: Amounts,
        given: Amounts,
        priority: int,
        best: float,
    ) -> dict[Amounts, float]:
        """What is missing when another queue has given, the largest last."""
        reclaim = self._queue.policy.reclaim
        most, is_last_free = 0, False
        if self._is_within_nominal(way, given):
            most, is_last_free = max(0, source.held - source.nominal), True
        elif reclaim is Reclaim.FAIR_SHARE:
            most = self._most_shared_out(source, way[0], given[0])
        taken = {(left, 0): cost for left, cost in states.items()}
        for victim in sorted(source.victims, key=lambda each: each.gpus):
            if victim.priority > priority:
                continue
            for (left, gave), cost in list(taken.items()):
                rest = tuple(max(0, need - gives) for need, gives in zip(left, victim.gives, strict=True))
                is_open = gave < most if is_last_free else gave + victim.gpus <= most
                key = rest, min(most, gave + victim.gpus)
                if is_open and rest != left and cost + victim.price < best:
                    taken[key] = min(taken.get(key, inf), cost + victim.price)
        found: dict[Amounts, float] = {}
        for (left, _), cost in taken.items():
            found[left] = min(found.get(left, inf), cost)
        return found

    def _most_shared_out(self, source: _Source, need: int, given: int) -> int:
        """So much the other queue may give while its share stays at least that of the claimant's."""
        mine, its = self._queue.policy.weight, source.queue.policy.weight
        if not mine:
            return 0
        with_it = self._held[self._queue.id][0] - given + need
        most = 0
        while most < source.held - source.nominal and (
            its == 0 or (source.held - most - 1) / its >= with_it / mine
        ):
            most += 1
        return most

    def _own_victims(self) -> list[_Victim]:
        if self._queue.policy.preempt_within is PreemptWithin.NEVER:
            return []
        return [each for each in self._victims_of(self._queue.id) if each.priority < self._row.priority]

    def _sources(self) -> Iterator[_Source]:
        reclaim = self._queue.policy.reclaim
        for queue in self._members if reclaim is not Reclaim.NEVER else ():
            if queue.id == self._queue.id:
                continue
            victims = [
                each
                for each in self._victims_of(queue.id)
                if reclaim is not Reclaim.LOWER_PRIORITY or each.priority < self._row.priority
            ]
            for model in range(len(self.models)):
                of_model = [victim for victim in victims if victim.model == model]
                yield _Source(
                    queue, model, self._held[queue.id][model], self._nominal(queue, model), of_model
                )

    def _victims_of(self, queue_id: int) -> Iterator[_Victim]:
        for unit in self._world.running.values():
            if unit.queue_id != queue_id or not unit.is_preemptible:
                continue
            on = tuple(
                sum(len(place.devices) for place in unit.places if place.node_id == node.id)
                for node in self._nodes
            )
            of_models = self.of_models(on)
            (model,) = [model for model, amount in enumerate(of_models) if amount]
            yield _Victim(unit.priority, self._prices[unit.id], model, (*on, *of_models))

    def _is_within_nominal(self, way: Amounts, given: Amounts) -> bool:
        held = self._held[self._queue.id]
        return all(
            not need or held[model] - given[model] + need <= self._nominal(self._queue, model)
            for model, need in enumerate(way)
        )

    def _most(self, model: int) -> float:
        borrowing = self._queue.quota.borrowing.get(self.models[model])
        return inf if borrowing is None else self._nominal(self._queue, model) + borrowing

    def _nominal(self, queue: Queue, model: int) -> int:
        return (queue.quota.nominal or {}).get(self.models[model], 0)

    def _whole(self, model: int) -> int:
        return sum(self._nominal(each, model) for each in self._members)

    def _held_by(self, queue_id: int) -> Amounts:
        amounts = [0] * len(self.models)
        for unit in self._world.running.values():
            for place in unit.places if unit.queue_id == queue_id else ():
                amounts[self.models.index(self._model_of(place.node_id))] += len(place.devices)
        return tuple(amounts)

    def _taken_on(self, node_id: int) -> int:
        return sum(
            len(place.devices)
            for unit in self._world.running.values()
            for place in unit.places
            if place.node_id == node_id
        )

    def _model_of(self, node_id: int) -> str:
        return self._world.configuration.nodes[node_id].devices[0].model

    def _name_at(self, index: int) -> str:
        return self.models[self._model_at[index]]

    def _domains(self, shape: Shape) -> list[list[int]]:
        found: dict[str, list[int]] = {}
        for index, node in enumerate(self._nodes):
            found.setdefault("" if shape.required is None else node.labels[shape.required], []).append(index)
        return list(found.values())
