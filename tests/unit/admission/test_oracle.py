"""The head group is placed exactly when an exhaustive search finds a place for it."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest

from service.admission.cycle import plan_cycle
from service.admission.resident import World
from service.admission.world import Changes, Configuration, Node
from service.domain.node import Place
from service.domain.resources import CPUS, MEMORY, Resources
from service.domain.shape import RoleShape, Shape, Slice
from tests.builders import NOW, Group, configuration, gang, independent, node, queue, role, submitted
from tests.unit.admission import oracle
from tests.unit.admission.quota_reference import Reference

CASES = 10_000
BATCHES = 5
#: Each cluster is asked for several heads, one after the other: to build and fill it takes most of the time.
HEADS = 5
MODELS = ("ma", "mb")


def _node(rng: random.Random, number: int) -> Node:
    kinds = [(rng.choice(MODELS), rng.choice((40, 80)))] * rng.randint(0, 4)
    if rng.random() < 0.25:
        kinds = [(rng.choice(MODELS), rng.choice((40, 80))) for _ in kinds]
    labels = {"zone": rng.choice(("z1", "z2"))}
    if rng.random() < 0.9:
        labels["rack"] = rng.choice(("r1", "r2"))
    return node(
        number,
        devices=kinds,
        cpus=rng.randint(2, 14),
        memory_gib=rng.randint(2, 16),
        pool=1 if rng.random() < 0.85 else 2,
        labels=labels,
        is_ready=rng.random() < 0.92,
        is_cordoned=rng.random() < 0.06,
        unhealthy=[0] if rng.random() < 0.1 else (),
        lost=[1] if rng.random() < 0.1 else (),
    )


def _role(rng: random.Random, name: str) -> RoleShape:
    gpus = rng.choice((0, 1, 1, 2, 3))
    return role(
        rng.randint(1, 3),
        gpus,
        name=name,
        cpus=rng.randint(0, 4),
        memory_gib=rng.randint(0, 4),
        models=rng.choice(((), ("ma",), ("mb", "ma"), ("ma", "mb"))) if gpus else (),
        min_gpu_memory_gib=rng.choice((0, 0, 0, 80)) if gpus else 0,
        labels={"zone": "z1"} if rng.random() < 0.2 else None,
    )


def _sliced(rng: random.Random, plain: RoleShape) -> RoleShape:
    if plain.count == 1 or rng.random() > 0.3:
        return plain
    size = rng.choice([size for size in (1, 2, 3) if plain.count % size == 0])
    return replace(plain, slice=Slice(level=rng.choice(("zone", "rack", "host")), size=size))


def _slices_lie_together(places: Iterable[Place], head: Group, config: Configuration) -> None:
    """Each slice of neighbours in rank in one domain of its level."""
    by_role: dict[int, list[Place]] = {}
    for place in sorted(places, key=lambda place: place.member):
        by_role.setdefault(place.role, []).append(place)
    for position, asked in enumerate(head.shape.roles):
        if asked.slice is not None:
            own = by_role[position]
            for first in range(0, len(own), asked.slice.size):
                _lies_in_one(own[first : first + asked.slice.size], config, asked.slice.level)


def _configuration(rng: random.Random) -> Configuration:
    nodes = [_node(rng, number) for number in range(1, rng.randint(3, 6))]
    nominal = {"ma": rng.randint(0, 6), "mb": rng.randint(0, 6)} if rng.random() < 0.4 else None
    if nominal is not None and rng.random() < 0.3:
        nominal |= {CPUS: rng.randint(2000, 20000), MEMORY: rng.randint(4, 30) * 1024}
    return configuration(nodes, [queue(1, nominal=nominal), queue(2)], levels=("zone", "rack", "host"))


def _group(rng: random.Random, group_id: int, queue_id: int, priority: int = 0) -> Group:
    if rng.random() < 0.15:
        return independent(group_id, _role(rng, "each"), queue_id=queue_id, priority=priority)
    roles = [_sliced(rng, _role(rng, f"r{number}")) for number in range(rng.choice((1, 1, 2, 2, 3)))]
    required = rng.choice((None, None, None, None, "zone", "rack", "host"))
    preferred = rng.choice((None, "rack", "host"))
    return gang(
        group_id, *roles, queue_id=queue_id, priority=priority, required=required, preferred=preferred
    )


def _occupy(rng: random.Random, world: World) -> list[tuple[Place, Resources]]:
    """Let some other groups run first, from a queue of their own."""
    others = [_group(rng, group_id, queue_id=2) for group_id in range(10, 10 + rng.randint(0, 2))]
    world.apply(submitted(*others))
    plan = plan_cycle(world, NOW)
    world.admit(plan.admissions, NOW)
    world.apply(Changes(gone=frozenset(world.pending)))
    return _held(world)


def _held(world: World) -> list[tuple[Place, Resources]]:
    return [
        (place, world.shapes[unit.shape_id].roles[place.role].requests)
        for unit in world.running.values()
        for place in unit.places
    ]


def _is_within_quota(shape: Shape, config: Configuration) -> bool:
    quota, total = Reference(config, {}), shape.total()
    needs = ((CPUS, total.cpus_milli), (MEMORY, total.memory_mib))
    return all((quota.ceiling(1, resource) or need) >= need for resource, need in needs)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_the_head_is_placed_whenever_there_is_a_place(batch: int) -> None:
    placed = preferred = 0
    for number in range(batch * CASES // BATCHES, (batch + 1) * CASES // BATCHES, HEADS):
        rng = random.Random(number)
        config = _configuration(rng)
        world = World.empty()
        world.apply(Changes(configuration=config))
        held = _occupy(rng, world)
        caps = {model: Reference(config, {}).ceiling(1, model) for model in MODELS}
        bounds = {model: cap for model, cap in caps.items() if cap is not None}
        for case in range(number, number + HEADS):
            head = _group(rng, 1, queue_id=1)
            world.apply(submitted(head))
            expected = _is_within_quota(head.shape, config) and oracle.can_place(
                head.shape, config, held, bounds
            )
            found = _place(world, head, bounds)
            assert bool(found) == expected, f"case {case}: {head.shape}"
            if head.shape.is_gang and expected:
                _slices_lie_together(found, head, config)
            if head.shape.preferred is not None and expected:
                level = oracle.finest_level(head.shape, config, held, bounds)
                _lies_in_one(found, config, level)
                preferred += level == head.shape.preferred
            placed += expected
    print(
        f"{CASES // BATCHES} cases, {placed} placed by the oracle and by the planner,"
        f" {preferred} in one domain of the preferred level"
    )
    assert CASES // BATCHES * 0.25 < placed < CASES // BATCHES * 0.9
    assert preferred > CASES // BATCHES * 0.05


def _place(world: World, head: Group, bounds: dict[str, int]) -> tuple[Place, ...]:
    """Places that the head, or the first members of it, are given; afterwards the World is as it was."""
    plan = plan_cycle(world, NOW)
    if plan.admissions and not head.shape.is_gang:
        _no_further_member_fits(plan.admissions, world, head, bounds)
    world.apply(Changes(gone=frozenset({head.row.id, *(each.unit_id for each in plan.admissions)})))
    return plan.admissions[0].places if plan.admissions else ()


def _lies_in_one(places: Iterable[Place], config: Configuration, level: str | None) -> None:
    """In one domain of the level, or without one in one pool."""
    nodes = [config.nodes[place.node_id] for place in places]
    domains = {(node.pool_id,) if level is None else oracle.domain_of(node, config, level) for node in nodes}
    assert len(domains) == 1
    assert None not in domains


def _no_further_member_fits(
    admissions: tuple[object, ...], world: World, head: Group, bounds: dict[str, int]
) -> None:
    """Of an independent group as many as fit were admitted."""
    world.admit(admissions, NOW)  # type: ignore[arg-type]
    if head.row.id not in world.pending:
        return
    used = world.used.get(1, {})
    left = {model: cap - used.get(model, 0) for model, cap in bounds.items()}
    quota, total = Reference(world.configuration, {}), head.shape.total()
    for resource, need in ((CPUS, total.cpus_milli), (MEMORY, total.memory_mib)):
        ceiling = quota.ceiling(1, resource)
        if ceiling is not None and used.get(resource, 0) + need > ceiling:
            return
    assert not oracle.can_place(head.shape, world.configuration, _held(world), left)
