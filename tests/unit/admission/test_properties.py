"""What holds for every plan, whatever waits and whatever the nodes are."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from service.admission.cycle import plan_cycle
from service.admission.plan import Admission, Plan
from service.admission.resident import World
from service.admission.waiting.eligibility import is_eligible
from service.admission.world import Changes, Configuration, Node, PendingUnit
from service.domain.queue import Order, Stop
from service.domain.reasons import Code, rank
from service.domain.resources import CPUS, MEMORY
from tests.builders import Group, after, submitted
from tests.unit.admission import oracle
from tests.unit.admission.quota_reference import Reference
from tests.unit.admission.strategies import configurations, waiting

_NOW = after(10)
_Value = TypeVar("_Value")
_MANY = settings(max_examples=100)


def _world(config: Configuration, groups: list[Group]) -> World:
    world = World.empty()
    world.apply(Changes(configuration=config))
    world.apply(submitted(*groups))
    return world


@_MANY
@given(configurations(), waiting())
def test_no_device_twice_and_no_node_over_its_capacity(config: Configuration, groups: list[Group]) -> None:
    world = _world(config, groups)
    for _ in range(2):
        world.admit(plan_cycle(world, _NOW).admissions, _NOW)
    held = [
        (place, world.shapes[unit.shape_id].roles[place.role])
        for unit in world.running.values()
        for place in unit.places
    ]
    devices = Counter((place.node_id, device) for place, _ in held for device in place.devices)
    assert max(devices.values(), default=1) == 1
    for place, role in held:
        node = config.nodes[place.node_id]
        used = [device for device in node.devices if device.index in place.devices]
        assert node.is_ready
        assert not node.is_cordoned
        assert len(used) == len(place.devices) == role.requests.gpus
        assert len({device.model for device in used}) <= 1
        assert all(device.is_healthy and not device.is_lost for device in used)
        assert all(device.memory_mib >= role.min_gpu_memory_mib for device in used)
        assert all(not role.models or device.model in role.models for device in used)
        assert all(node.labels.get(label) == value for label, value in role.node_labels)
    for node in config.nodes.values():
        here = [role.requests for place, role in held if place.node_id == node.id]
        assert sum(requests.cpus_milli for requests in here) <= node.cpus_milli
        assert sum(requests.memory_mib for requests in here) <= node.memory_mib


@_MANY
@given(configurations(), waiting())
def test_whole_or_nothing_in_one_pool_and_one_domain(config: Configuration, groups: list[Group]) -> None:
    world = _world(config, groups)
    rows = dict(world.pending)
    for admission in plan_cycle(world, _NOW).admissions:
        row, shape = rows[admission.from_unit_id], world.shapes[admission.shape_id]
        nodes = [config.nodes[place.node_id] for place in admission.places]
        assert {node.pool_id for node in nodes} == {admission.pool_id}
        if shape.is_gang:
            expected = [number for number, role in enumerate(shape.roles) for _ in range(role.count)]
            assert [place.role for place in admission.places] == expected
            assert [place.member for place in admission.places] == list(range(shape.member_count))
            assert admission.unit_id == row.id
        else:
            assert [place.member for place in admission.places] == [admission.index]
            assert row.first_index <= admission.index <= row.last_index
        if shape.required is not None:
            assert len({node.labels[shape.required] for node in nodes}) == 1
        assert is_eligible(row, _NOW)
        assert config.queues[row.queue_id].stop is Stop.NONE


@_MANY
@given(configurations(), waiting())
def test_ranges_are_admitted_lowest_index_first_without_a_gap(
    config: Configuration, groups: list[Group]
) -> None:
    world = _world(config, groups)
    rows = dict(world.pending)
    indexes: dict[int, list[int]] = defaultdict(list)
    for admission in plan_cycle(world, _NOW).admissions:
        indexes[admission.from_unit_id].append(admission.index)
    for row_id, admitted in indexes.items():
        first = rows[row_id].first_index
        assert admitted == list(range(first, first + len(admitted)))


@_MANY
@given(configurations(), waiting())
def test_no_queue_goes_over_its_quota(config: Configuration, groups: list[Group]) -> None:
    world = _world(config, groups)
    used: dict[int, Counter[str]] = defaultdict(Counter)
    for admission in plan_cycle(world, _NOW).admissions:
        used[admission.queue_id].update(admission.usage)
        assert admission.usage == _usage_of_places(config, world, admission)
    for queue_id, amounts in used.items():
        for resource, amount in amounts.items():
            ceiling = Reference(config, {}).ceiling(queue_id, resource)
            assert ceiling is None or amount <= ceiling
    reference = Reference(config, used)
    for cohort in config.cohorts.values():
        for resource in {resource for amounts in used.values() for resource in amounts}:
            total, borrowing = reference.total(cohort, resource), cohort.quota.borrowing.get(resource)
            if cohort.parent_id is None:
                assert reference.held(cohort, resource) <= total
            elif borrowing is not None:
                assert reference.held(cohort, resource) <= total + borrowing


def _usage_of_places(config: Configuration, world: World, admission: Admission) -> Mapping[str, int]:
    usage: Counter[str] = Counter({CPUS: 0, MEMORY: 0})
    for place in admission.places:
        requests = world.shapes[admission.shape_id].roles[place.role].requests
        usage[CPUS] += requests.cpus_milli
        usage[MEMORY] += requests.memory_mib
        models = {device.index: device.model for device in config.nodes[place.node_id].devices}
        usage.update(models[device] for device in place.devices)
    return dict(usage)


@_MANY
@given(configurations(), waiting(), st.randoms(use_true_random=False))
def test_the_same_world_gives_the_same_plan_in_any_order_of_arrival(
    config: Configuration, groups: list[Group], rng: random.Random
) -> None:
    world = _world(config, groups)
    before = world.snapshot()
    plan = plan_cycle(world, _NOW)
    assert world.snapshot() == before
    assert plan_cycle(world, _NOW) == plan
    shuffled = list(groups)
    rng.shuffle(shuffled)
    other = World.empty()
    for group in shuffled:
        other.apply(submitted(group))
    turned = replace(
        config,
        queues=_shuffled(config.queues, rng),
        cohorts=_shuffled(config.cohorts, rng),
        nodes=_shuffled(config.nodes, rng),
    )
    other.apply(Changes(configuration=turned))
    assert plan_cycle(other, _NOW) == plan


def _shuffled(values: Mapping[int, _Value], rng: random.Random) -> dict[int, _Value]:
    items = list(values.items())
    rng.shuffle(items)
    return dict(items)


@_MANY
@given(configurations(), waiting())
def test_a_strict_queue_never_passes_an_eligible_head_that_could_fit(
    config: Configuration, groups: list[Group]
) -> None:
    world = _world(config, groups)
    plan = plan_cycle(world, _NOW)
    admitted = {admission.from_unit_id for admission in plan.admissions}
    for queue in config.queues.values():
        if queue.order is not Order.STRICT:
            continue
        blocked: PendingUnit | None = None
        for waiting_row in _in_order(world, queue.id):
            if blocked is not None:
                assert waiting_row.id not in admitted
            remaining = _remaining(plan, waiting_row)
            if (
                remaining
                and is_eligible(waiting_row, _NOW)
                and world.feasibility.fits(
                    waiting_row.shape_id, world.shapes[waiting_row.shape_id], world.quota, queue.id
                )
            ):
                blocked = blocked or waiting_row


@_MANY
@given(configurations(), waiting())
def test_every_row_that_waits_is_listed_in_order_and_the_eligible_ones_are_told_why(
    config: Configuration, groups: list[Group]
) -> None:
    world = _world(config, groups)
    plan = plan_cycle(world, _NOW)
    assert plan.queues.keys() == config.queues.keys()
    for queue_id, verdict in plan.queues.items():
        rows = [row for row in _in_order(world, queue_id) if _remaining(plan, row)]
        assert [waiting_row.unit_id for waiting_row in verdict.order] == [row.id for row in rows]
        for row, entry in zip(rows, verdict.order, strict=True):
            blockers = verdict.verdicts[entry.verdict]
            is_open = config.queues[queue_id].stop is Stop.NONE
            assert entry.is_eligible == (is_open and is_eligible(row, _NOW))
            assert blockers or not entry.is_eligible
            codes = [blocker.code for blocker in blockers]
            assert codes == sorted(codes, key=rank)
            for blocker in blockers:
                if blocker.code in (
                    Code.INSUFFICIENT_GPUS,
                    Code.INSUFFICIENT_CPU,
                    Code.INSUFFICIENT_MEMORY,
                ):
                    assert blocker.need is not None
                    assert blocker.have_key is not None
                    assert plan.numbers[blocker.have_key] < blocker.need


@_MANY
@given(configurations(), waiting())
def test_never_fits_is_said_exactly_when_idle_nodes_would_not_do(
    config: Configuration, groups: list[Group]
) -> None:
    world = _world(config, groups)
    idle = Configuration(
        version=1,
        queues=config.queues,
        pools=config.pools,
        nodes={key: _idle(node) for key, node in config.nodes.items()},
    )
    plan = plan_cycle(world, _NOW)
    for queue_id, verdict in plan.queues.items():
        for entry in verdict.order:
            row = world.pending[entry.unit_id]
            shape, quota = world.shapes[row.shape_id], Reference(config, {})
            ceilings = {model: quota.ceiling(queue_id, model) for model in ("ma", "mb")}
            caps = {model: bound for model, bound in ceilings.items() if bound is not None}
            cpus = quota.ceiling(queue_id, CPUS)
            fits = (cpus is None or shape.total().cpus_milli <= cpus) and oracle.can_place(
                shape, idle, caps=caps
            )
            codes = {blocker.code for blocker in verdict.verdicts[entry.verdict]}
            assert (Code.NEVER_FITS in codes) == (not fits)


def _idle(node: Node) -> Node:
    devices = tuple(replace(device, is_healthy=True, is_lost=False) for device in node.devices)
    return replace(node, is_ready=True, is_cordoned=False, devices=devices)


def _in_order(world: World, queue_id: int) -> list[PendingUnit]:
    rows = [row for row in world.pending.values() if row.queue_id == queue_id]
    return sorted(rows, key=lambda row: (-row.priority, row.submitted_at, row.group_id, row.first_index))


def _remaining(plan: Plan, row: PendingUnit) -> int:
    """Members of the row that still wait after the plan."""
    return row.last_index - row.first_index + 1 - sum(a.from_unit_id == row.id for a in plan.admissions)
