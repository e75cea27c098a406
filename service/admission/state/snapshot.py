"""All of a World that decides, by value: two that are equal plan the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from service.admission.pauses import Pauses
from service.admission.state.booked import Booked
from service.admission.waiting.line import Key
from service.admission.waiting.terms import whole_id
from service.admission.world import Configuration, PendingUnit, RunningUnit
from service.domain.claim import Claim
from service.domain.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """`free` by node: devices, CPUs, memory. Shapes are whole: to which of its models a row has come follows
    from the instant."""

    configuration: Configuration
    pending: Mapping[int, PendingUnit]
    running: Mapping[int, RunningUnit]
    shapes: Mapping[int, Shape]
    order: Mapping[int, tuple[Key, ...]]
    claims: Mapping[int, Claim]
    pauses: Mapping[int, Pauses]
    used: Mapping[int, Mapping[str, int]]
    free: Mapping[int, tuple[frozenset[int], int, int]]


def snapshot_of(world: Booked) -> Snapshot:
    pending = {row.id: replace(row, shape_id=whole_id(row.shape_id)) for row in world.pending.values()}
    used_shapes = {row.shape_id for row in pending.values()}
    used_shapes |= {unit.shape_id for unit in world.running.values()}
    return Snapshot(
        configuration=world.configuration,
        pending=pending,
        running=dict(world.running),
        shapes={shape_id: world.shapes[shape_id] for shape_id in used_shapes},
        order={queue_id: tuple(map(_whole_key, line.keys)) for queue_id, line in world.backlog.lines.items()},
        claims=dict(world.claims),
        pauses=dict(world.pauses),
        used={
            queue_id: {resource: amount for resource, amount in used.items() if amount}
            for queue_id, used in world.used.items()
            if any(used.values())
        },
        free={
            state.node.id: (state.free, state.free_cpus_milli, state.free_memory_mib)
            for state in world.capacity.nodes.values()
        },
    )


def _whole_key(key: Key) -> Key:
    return (*key[:5], whole_id(key[5]), key[6])
