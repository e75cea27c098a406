"""One member alone goes where it would as a gang of one, by a shorter way."""

from __future__ import annotations

import random

from service.admission.held.holds import Taken
from service.admission.nodes.capacity import Capacity
from service.admission.placement.packing import pack, pick
from service.admission.placement.scratch import Scratch
from service.domain.shape import Scheduling, Shape
from tests.builders import configuration, node, role


def test_a_single_member_is_seated_where_packing_would_seat_it() -> None:
    found = 0
    for seed in range(40):
        rng = random.Random(seed)
        nodes = [node(n, rng.choice((0, 0, 4, 8)), cpus=16, memory_gib=8) for n in range(1, 13)]
        capacity = Capacity(configuration(nodes))
        _hold_some(capacity, rng)
        for gpus in (0, 1, 3):
            each = role(1, gpus, cpus=rng.choice((1, 4, 9)), memory_gib=rng.choice((1, 5)))
            query = capacity.query(gpus, Shape(scheduling=Scheduling.GANG, roles=(each,)))
            assert query.is_single
            avoided = frozenset(rng.sample(range(1, 13), 3))
            for stock in query.roles[0].fields[0].stocks.values():
                scratch, field = Scratch(capacity.nodes, {}, avoided), query.roles[0].fields[0]
                pack(query.roles[0], 0, field=field, stock=stock, scratch=scratch, want=1)
                picked = pick(query.roles[0], field=field, stock=stock, avoided=avoided)
                packed = [share.node_id for share in scratch.shares]
                assert packed == ([] if picked is None else [picked.state.node.id])
                found += picked is not None
    assert found > 80


def _hold_some(capacity: Capacity, rng: random.Random) -> None:
    for state in capacity.nodes.values():
        devices = tuple(sorted(state.free)[: rng.randrange(0, 9)])
        capacity.hold(Taken(state.node.id, devices, rng.randrange(0, 5) * 4000, rng.choice((0, 4096))))
