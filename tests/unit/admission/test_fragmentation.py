"""Best fit leaves more in one piece than the two simple ways, on the same stream of gangs."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from service.admission.held.holds import Taken
from service.admission.nodes.capacity import Capacity
from service.admission.nodes.state import NodeState
from service.admission.placement.placement import place_gang
from service.domain.shape import Shape
from tests.builders import configuration, gang, node, role, shape_id

_NODES = [node(number, 8, labels={"rack": f"r{number % 8}"}) for number in range(1, 65)]
_SHAPES = [gang(1, role(count, gpus)).shape for count in (1, 1, 2, 3, 4) for gpus in (1, 2, 4, 8)]

Place = Callable[[Capacity, Shape], list[Taken] | None]


def _best_fit(capacity: Capacity, shape: Shape) -> list[Taken] | None:
    shares = place_gang(capacity, capacity.query(shape_id(shape), shape), caps={})
    return None if shares is None else [Taken(share.node_id, share.devices, 0, 0) for share in shares]


def _in_order(key: Callable[[NodeState], tuple[int, ...]]) -> Place:
    """Members one by one on the first node with room, in this order of nodes."""

    def place(capacity: Capacity, shape: Shape) -> list[Taken] | None:
        (asked,) = shape.roles
        free = {state.node.id: sorted(state.free) for state in capacity.nodes.values()}
        taken: list[Taken] = []
        for _ in range(asked.count):
            fitting = [s for s in capacity.nodes.values() if len(free[s.node.id]) >= asked.requests.gpus]
            if not fitting:
                return None
            node_id = min(fitting, key=key).node.id
            taken.append(Taken(node_id, tuple(free[node_id][: asked.requests.gpus]), 0, 0))
            free[node_id] = free[node_id][asked.requests.gpus :]
        return taken

    return place


def _stream(place: Place, seed: int) -> tuple[float, float]:
    """Whole nodes, and GPUs in the emptiest rack, that were free on the average."""
    rng, capacity = random.Random(seed), Capacity(configuration(_NODES, levels=("rack", "host")))
    running: list[list[Taken]] = []
    whole = largest = 0
    for _ in range(400):
        # As much runs at any time, whichever way is chosen.
        held = sum(len(taken.devices) for group in running for taken in group)
        shape, leaving = rng.choice(_SHAPES), rng.random()
        if held < 300 and (taken := place(capacity, shape)) is not None:
            running.append(taken)
            for each in taken:
                capacity.hold(each)
        elif running:
            for each in running.pop(int(leaving * len(running))):
                capacity.release(each)
        racks: dict[str, int] = {}
        for state in capacity.nodes.values():
            whole += len(state.free) == 8
            rack = state.node.labels["rack"]
            racks[rack] = racks.get(rack, 0) + len(state.free)
        largest += max(racks.values())
    return whole / 400, largest / 400


@pytest.mark.parametrize("seed", range(3))
def test_more_whole_nodes_and_larger_domains_are_left(seed: int) -> None:
    best = _stream(_best_fit, seed)
    first_fit = _stream(_in_order(lambda state: (state.node.id,)), seed)
    least_allocated = _stream(_in_order(lambda state: (-len(state.free), state.node.id)), seed)
    print(f"best fit {best}, first fit {first_fit}, least allocated {least_allocated}")
    assert best[0] >= max(first_fit[0], least_allocated[0])
    assert best[1] >= max(first_fit[1], least_allocated[1])
