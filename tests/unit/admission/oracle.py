"""Placement by trying everything, written without a look at the planner: slow and plainly right.

Rules: all members in one pool, or in one domain of the required level; a member sits on one node
that is up, not cordoned and has its labels; its GPUs are free devices of one model that it allows,
with enough memory each; and the models together stay within the caps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, product

from service.admission.world import Configuration, Node
from service.domain.node import Place
from service.domain.resources import Resources
from service.domain.shape import RoleShape, Shape

#: Free devices as (model, memory), CPUs, memory.
Free = tuple[tuple[tuple[str, int], ...], int, int]


def can_place(
    shape: Shape,
    configuration: Configuration,
    held: Iterable[tuple[Place, Resources]] = (),
    caps: Mapping[str, int] | None = None,
) -> bool:
    return _fits_one_of(
        _domains(configuration, shape.required), shape, configuration, list(held), dict(caps or {})
    )


def finest_level(
    shape: Shape,
    configuration: Configuration,
    held: Iterable[tuple[Place, Resources]] = (),
    caps: Mapping[str, int] | None = None,
) -> str | None:
    """The level, from the preferred one outwards, of which one domain holds the gang; None if only what
    its rules allow anyway does. All pools have the same levels."""
    levels = next(iter(configuration.pools.values())).levels
    assert shape.preferred is not None
    innermost = levels.index(shape.preferred)
    outermost = -1 if shape.required is None else levels.index(shape.required)
    for index in range(innermost, outermost, -1):
        domains = [
            [node for node in nodes if shape.required is None or shape.required in node.labels]
            for nodes in _domains(configuration, levels[index])
        ]
        if _fits_one_of(domains, shape, configuration, list(held), dict(caps or {})):
            return levels[index]
    return None


def domain_of(node: Node, configuration: Configuration, level: str) -> tuple[object, ...] | None:
    """Where the node lies; None without a label of the level."""
    levels = configuration.pools[node.pool_id].levels
    if level not in levels or level not in node.labels:
        return None
    return (node.pool_id, *(node.labels.get(name) for name in levels[: levels.index(level) + 1]))


def _fits_one_of(
    domains: list[list[Node]],
    shape: Shape,
    configuration: Configuration,
    held: list[tuple[Place, Resources]],
    caps: dict[str, int],
) -> bool:
    members = [role for role in shape.roles for _ in range(role.count if shape.is_gang else 1)]
    for nodes in domains:
        free = tuple(_free(node, held) for node in nodes)
        for allowed in _choices_of_domains(shape, nodes, configuration):
            if _fits(members, nodes, free, caps, set(), allowed):
                return True
    return False


def _choices_of_domains(
    shape: Shape, nodes: list[Node], configuration: Configuration
) -> Iterator[list[frozenset[int] | None]]:
    """For each member the nodes that it may use: those of the domain that its slice was given; None: all."""
    slots: list[list[frozenset[int] | None]] = []
    sizes: list[int] = []
    for role in shape.roles:
        if role.slice is None:
            slots.append([None])
            sizes.append(role.count if shape.is_gang else 1)
            continue
        domains: dict[tuple[object, ...], set[int]] = {}
        for node in nodes:
            domain = domain_of(node, configuration, role.slice.level)
            if domain is not None:
                domains.setdefault(domain, set()).add(node.id)
        slots.extend([[frozenset(ids) for ids in domains.values()]] * (role.count // role.slice.size))
        sizes.extend([role.slice.size] * (role.count // role.slice.size))
    for chosen in product(*slots):
        yield [ids for ids, size in zip(chosen, sizes, strict=True) for _ in range(size)]


def _domains(configuration: Configuration, level: str | None) -> list[list[Node]]:
    found: dict[tuple[object, ...], list[Node]] = {}
    for node in configuration.nodes.values():
        if not node.is_ready or node.is_cordoned:
            continue
        domain = (node.pool_id,) if level is None else domain_of(node, configuration, level)
        if domain is not None:
            found.setdefault(domain, []).append(node)
    return list(found.values())


def _free(node: Node, held: list[tuple[Place, Resources]]) -> Free:
    here = [(place, requests) for place, requests in held if place.node_id == node.id]
    taken = {device for place, _ in here for device in place.devices}
    devices = [
        (device.model, device.memory_mib)
        for device in node.devices
        if device.index not in taken and device.is_healthy and not device.is_lost
    ]
    return (
        tuple(sorted(devices)),
        node.cpus_milli - sum(requests.cpus_milli for _, requests in here),
        node.memory_mib - sum(requests.memory_mib for _, requests in here),
    )


def _fits(
    members: list[RoleShape],
    nodes: list[Node],
    free: tuple[Free, ...],
    caps: dict[str, int],
    failed: set[tuple[object, ...]],
    allowed: list[frozenset[int] | None],
) -> bool:
    if not members:
        return True
    state = (len(members), free, tuple(sorted(caps.items())))
    if state in failed:
        return False
    role, rest = members[0], members[1:]
    for position, node in enumerate(nodes):
        if any(node.labels.get(label) != value for label, value in role.node_labels):
            continue
        if (ids := allowed[-len(members)]) is not None and node.id not in ids:
            continue
        for model, left in _seats(role, free[position]):
            room = dict(caps)
            if model in room:
                room[model] -= role.requests.gpus
                if room[model] < 0:
                    continue
            after = (*free[:position], left, *free[position + 1 :])
            if _fits(rest, nodes, after, room, failed, allowed):
                return True
    failed.add(state)
    return False


def _seats(role: RoleShape, free: Free) -> Iterator[tuple[str, Free]]:
    devices, cpus_milli, memory_mib = free
    cpus_milli -= role.requests.cpus_milli
    memory_mib -= role.requests.memory_mib
    if cpus_milli < 0 or memory_mib < 0:
        return
    if role.requests.gpus == 0:
        yield "", (devices, cpus_milli, memory_mib)
        return
    seen = set()
    for chosen in combinations(range(len(devices)), role.requests.gpus):
        kinds = tuple(devices[index] for index in chosen)
        models = {model for model, _ in kinds}
        if len(models) > 1 or kinds in seen:
            continue
        seen.add(kinds)
        if role.models and not models <= set(role.models):
            continue
        if any(memory < role.min_gpu_memory_mib for _, memory in kinds):
            continue
        left = tuple(device for index, device in enumerate(devices) if index not in chosen)
        yield kinds[0][0], (left, cpus_milli, memory_mib)
