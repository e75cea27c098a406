"""What a field says of its domains at once is what its nodes add up to."""

from __future__ import annotations

import random

from service.admission.held.holds import Taken
from service.admission.nodes.capacity import Capacity
from service.admission.nodes.field import Field
from service.admission.nodes.filters import Filter
from service.admission.nodes.topology import Domain
from tests.builders import configuration, node

_NODES = [node(n, 8, labels={"rack": f"r{n % 5}"}) for n in range(1, 21)]


def test_rooms_follow_what_is_taken_and_given_back() -> None:
    capacity, rng = Capacity(configuration(_NODES, levels=("rack", "host"))), random.Random(5)
    field = capacity.field([Filter(has_gpus=True, models=(), min_memory_mib=0, labels=())], "rack")
    for _ in range(60):
        state = capacity.nodes[rng.randrange(1, 21)]
        if state.held and rng.random() < 0.5:
            capacity.release(Taken(state.node.id, tuple(sorted(state.held)), state.held_cpus_milli, 0))
        elif state.free:
            devices = tuple(sorted(state.free)[: rng.randrange(1, 5)])
            capacity.hold(Taken(state.node.id, devices, rng.randrange(0, 5) * 1000, 0))
        _check(capacity, field)


def _check(capacity: Capacity, field: Field) -> None:
    free: dict[Domain, list[tuple[int, int]]] = {}
    for state in capacity.nodes.values():
        of_domain = free.setdefault((1, state.node.labels["rack"]), [])
        of_domain.append((len(state.free), state.free_cpus_milli))
    sums = {domain: sum(gpus for gpus, _ in nodes) for domain, nodes in free.items()}
    assert field.rooms.most("gpus") == max(sums.values())
    for gpus, cpus_milli in ((1, 0), (3, 7000), (3, 120_000), (8, 8000)):
        seats = {
            domain: sum(free_gpus // gpus for free_gpus, free_cpus in nodes if free_cpus >= cpus_milli)
            for domain, nodes in free.items()
        }
        assert seats == {domain: field.rooms.seats(gpus, domain, cpus_milli=cpus_milli) for domain in seats}
        assert field.rooms.most_seats(gpus, cpus_milli=cpus_milli) == max(seats.values())
    for least in (0, 10, 20):
        listed = [stock.domain for stock in field.rooms.with_room(least)]
        assert sorted(listed) == sorted(domain for domain, gpus in sums.items() if gpus >= least)
        assert [sums[domain] for domain in listed] == sorted(sums[domain] for domain in listed)
