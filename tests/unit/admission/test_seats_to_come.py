"""Nobody is refused, by what was counted earlier in a cycle or by a bound, who could sit if others went."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from service.admission.claims.book import ClaimBook
from service.admission.claims.dating import Ends
from service.admission.claims.lent import LentSeats
from service.admission.held.holds import Taken
from service.admission.nodes.capacity import Capacity
from service.admission.nodes.query import RoleQuery
from service.admission.nodes.topology import Domain
from service.admission.preemption.candidates import Source
from service.admission.preemption.seats_to_come import SeatsToCome
from service.admission.world import Changes
from tests.builders import Group, Site, after, configuration, gang, node, role

CASES = 40


def _site(rng: random.Random) -> Site:
    """Racks of nodes, mostly full of small units, and claims of some that found no place."""
    nodes = [node(number, rng.randint(2, 8), labels={"rack": f"r{number % 3}"}) for number in range(1, 13)]
    site = Site()
    site.world.apply(Changes(configuration=configuration(nodes, levels=("rack", "host"))))
    small = [gang(number, role(1, rng.randint(1, 3)), queue_id=1) for number in range(10, 50)]
    site.submit(*(_limited(group, rng) for group in small))
    site.cycle()
    some = [unit_id for unit_id in sorted(site.world.running) if rng.random() < 0.2]
    site.world.apply(Changes(gone=frozenset({*some, *site.world.pending})))
    large = gang(
        1, role(rng.randint(3, 6), rng.randint(2, 4)), queue_id=1, required=rng.choice((None, "rack"))
    )
    site.submit(_limited(large, rng))
    site.cycle()
    return site


def _limited(group: Group, rng: random.Random) -> Group:
    return Group(replace(group.row, time_limit_seconds=rng.choice((600, 3600))), group.shape)


def _roles(capacity: Capacity, shape_id: int) -> Iterable[RoleQuery]:
    for number, level in enumerate((None, "rack"), start=shape_id):
        for gpus in (1, 2, 3):
            for count in (4, 8, 12, 16, 24):
                shape = gang(1, role(count, gpus), required=level).shape
                yield capacity.query(number * 1000 + gpus * 100 + count, shape).roles[0]


def _truth(capacity: Capacity, role_query: RoleQuery, gone: Iterable[Taken]) -> int:
    """Seats in the best domain, by GPUs, if these were gone."""
    devices: dict[int, Counter[int]] = {}
    for taken in gone:
        devices.setdefault(taken.node_id, Counter()).update(taken.devices)
    seats = Counter[Domain]()
    for node_id, membership in role_query.fields[0].members.items():
        held = Counter(capacity.nodes[node_id].held)
        held.subtract(devices.get(node_id, {}))
        free = sum(held[device] <= 0 for device in membership.eligible)
        seats[membership.stock.domain] += free // role_query.requests.gpus
    return max(seats.values())


def _take_some(rng: random.Random, capacity: Capacity) -> None:
    state = capacity.nodes[rng.choice(sorted(capacity.nodes))]
    if state.free:
        capacity.take([Taken(state.node.id, tuple(sorted(state.free)[:2]), 0, 0)])


def test_who_could_sit_if_others_gave_way_is_never_refused() -> None:
    answers = Counter[tuple[bool, bool]]()
    for number in range(CASES):
        rng = random.Random(number)
        world = _site(rng).world
        leaving, source = Source(), Source()
        lent: list[Taken] = []
        for unit_id, unit in sorted(world.running.items()):
            share, taken = rng.random(), world.holders.taken[unit_id]
            if share < 0.4:
                (leaving if share < 0.1 else source).add(unit, taken)
            elif share < 0.5:
                lent.extend(taken)
        seats = SeatsToCome(world.capacity, leaving)
        for _ in range(3):
            for role_query in _roles(world.capacity, number):
                for kept in ((), lent):
                    may = seats.may_seat(role_query, sources=[source], lent=kept)
                    gone = [each for one in (*source.nodes.values(), *leaving.nodes.values()) for each in one]
                    could = _truth(world.capacity, role_query, [*gone, *kept]) >= role_query.count
                    nodes = {*leaving.nodes, *source.nodes, *(taken.node_id for taken in kept)}
                    assert may or not could or not nodes, f"case {number}"
                    answers[bool(kept), may] += 1
            _take_some(rng, world.capacity)
    assert all(answers[kept, may] > CASES for kept in (False, True) for may in (False, True)), answers


def test_who_could_sit_on_what_is_kept_is_never_refused() -> None:
    answers = Counter[bool]()
    for number in range(CASES):
        rng = random.Random(number)
        world = _site(rng).world
        claims = ClaimBook(world, after(1), ends=Ends(world, after(1)))
        kept = frozenset(unit_id for unit_id, taken in claims.taken.items() if taken)
        if not kept:
            continue
        seats = LentSeats(world.capacity, claims)
        for _ in range(3):
            for role_query in _roles(world.capacity, number):
                may = seats.may_seat(role_query, kept)
                could = _truth(world.capacity, role_query, claims.all_taken()) >= role_query.count
                alone = _truth(world.capacity, role_query, ()) >= role_query.count
                assert may or alone or not could, f"case {number}"
                answers[may] += 1
            _take_some(rng, world.capacity)
    assert min(answers[False], answers[True]) > CASES, answers
