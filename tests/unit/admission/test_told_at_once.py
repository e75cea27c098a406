"""What is told without a search, or kept while units come and go, is what a search and a count say."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from service.admission.held.given_back import GivenBack
from service.admission.held.holds import Taken
from service.admission.nodes.capacity import Capacity
from service.admission.placement.placement import place_gang
from service.admission.placement.seatless import Seatless
from service.admission.placement.witness import Witness, still_stands, witness_of
from service.admission.world import Changes, RunningUnit
from tests.builders import Site, after, configuration, gang, node, role

_NODES = [node(n, 8, labels={"rack": f"r{n % 4}"}) for n in range(1, 17)]


def test_seatless_shapes_and_witnesses_say_what_a_search_says() -> None:
    rng = random.Random(3)
    capacity = Capacity(configuration(_NODES, levels=("rack", "host")))
    shapes = [
        gang(1, role(count, gpus), required=level).shape
        for count in (1, 2, 5, 9)
        for gpus in (1, 3, 8)
        for level in (None, "rack")
    ]
    queries = [(number, capacity.query(number, shape)) for number, shape in enumerate(shapes)]
    seatless, told = Seatless(queries), Counter[str]()
    witnesses: dict[int, Witness] = {}
    for _ in range(80):
        _change(rng, capacity)
        without = set(seatless.find())
        for number, query in queries:
            found = place_gang(capacity, query, caps={})
            if number in without:
                assert found is None
                told["seatless"] += 1
            if still_stands(query, witnesses.get(number, ())):
                assert found is not None
                told["stands"] += 1
            witnesses[number] = witness_of(query, found or ())
    assert min(told["seatless"], told["stands"]) > 50


def _change(rng: random.Random, capacity: Capacity) -> None:
    state = capacity.nodes[rng.randrange(1, 17)]
    if state.held and rng.random() < 0.4:
        capacity.release(Taken(state.node.id, tuple(sorted(state.held)), 0, 0))
    elif state.free:
        capacity.hold(Taken(state.node.id, tuple(sorted(state.free)[: rng.randrange(1, 7)]), 0, 0))


def test_what_is_given_back_by_a_date_follows_who_starts_and_ends() -> None:
    rng, known = random.Random(4), GivenBack()
    units: dict[int, RunningUnit] = {}
    dates = [after(60.0 * step) for step in range(1, 30)]
    pattern = _some_unit()
    for number in range(300):
        if units and rng.random() < 0.4:
            known.remove(units.pop(rng.choice(sorted(units))))
        else:
            limit = rng.choice((None, after(60.0 * rng.randrange(30))))
            units[number] = replace(
                pattern, id=number, time_limit_at=limit, usage={"mx": rng.randrange(1, 4)}
            )
            known.add(units[number])
        due_at = rng.choice(dates)
        told = known.by(pattern.queue_id, due_at, units.values())
        ended = [each for each in units.values() if each.frees_at is not None and each.frees_at <= due_at]
        assert told.get("mx", 0) == sum(each.usage["mx"] for each in ended)


def _some_unit() -> RunningUnit:
    site = Site()
    site.world.apply(Changes(configuration=configuration(_NODES)))
    site.submit(gang(1, role(1, 1), queue_id=1))
    site.cycle()
    (unit,) = site.world.running.values()
    return unit
