"""What a running group can give up without falling below its minimum: whole members, last ranks first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from service.admission.elastic.sizes import counts_of, last_role
from service.admission.plan import Receipt, Resize
from service.admission.policy import Policy
from service.admission.world import Node, RunningUnit
from service.domain.node import Place
from service.domain.resources import CPUS, MEMORY
from service.domain.shape import Shape, Sizing


def rests_until(unit: RunningUnit, shape: Shape, *, policy: Policy) -> datetime | None:
    """Before then a group is not resized again; None if it never was, or is of one size."""
    if unit.resized_at is None or shape.sizing is not Sizing.WHILE_RUNNING:
        return None
    return unit.resized_at + timedelta(seconds=policy.resize_interval_seconds)


def surplus_of(unit: RunningUnit, shape: Shape, *, policy: Policy, now: datetime) -> tuple[Place, ...]:
    """Places in the order in which they are given up; some of them may be dropped, or all. Empty for a group
    that does not run or may not be resized now."""
    until = rests_until(unit, shape, policy=policy)
    if not unit.is_resizable or (until is not None and until > now):
        return ()
    return surplus_after(unit, shape)


def surplus_after(
    unit: RunningUnit, shape: Shape, *, without: Collection[int] = frozenset()
) -> tuple[Place, ...]:
    """The same as it will be when the group may be resized again, and has given up the members that stop
    already and those `without`."""
    gone = {*unit.dropping, *without}
    return tuple(_given_up([place for place in unit.places if place.member not in gone], shape))


def shrink(
    unit: RunningUnit,
    shape: Shape,
    dropped: Sequence[Place],
    *,
    nodes: Mapping[int, Node],
    receipt: Receipt | None = None,
) -> Resize:
    """The group gives up these places of its surplus."""
    freed = freed_by(dropped, shape, nodes=nodes)
    return Resize(
        unit_id=unit.id,
        attempt=unit.attempt,
        revision=unit.revision + 1,
        pool_id=nodes[unit.places[0].node_id].pool_id,
        places=unit.places,
        dropped=tuple(dropped),
        usage=unit.usage,
        usage_without={name: amount - freed.get(name, 0) for name, amount in unit.usage.items()},
        receipt=receipt,
    )


def part_of(
    unit: RunningUnit, places: Sequence[Place], *, shape: Shape, nodes: Mapping[int, Node]
) -> RunningUnit:
    """These places of the unit, as if they were a unit by themselves."""
    return replace(unit, places=tuple(places), usage=freed_by(places, shape, nodes=nodes))


def freed_by(places: Sequence[Place], shape: Shape, *, nodes: Mapping[int, Node]) -> dict[str, int]:
    """What these places are of a queue's quota, by resource."""
    requests = [shape.roles[place.role].requests for place in places]
    usage = {
        CPUS: sum(each.cpus_milli for each in requests),
        MEMORY: sum(each.memory_mib for each in requests),
    }
    for place in places:
        node = nodes.get(place.node_id)
        for device in node.devices if node is not None else ():
            if device.index in place.devices:
                usage[device.model] = usage.get(device.model, 0) + 1
    return usage


def _given_up(places: Sequence[Place], shape: Shape) -> Iterator[Place]:
    left = sorted(places, key=lambda place: place.member)
    while (role := last_role(shape, counts_of(shape, left))) is not None:
        last = max((place for place in left if place.role == role), key=lambda place: place.member)
        left.remove(last)
        yield last
