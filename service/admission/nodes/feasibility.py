"""Whether each single member could sit on some registered node, whatever its health and whatever
runs there: a group with one that could not is refused at submit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from service.admission.nodes.filters import Filter, filter_of, kinds_of
from service.admission.world import Configuration, Node
from service.domain.shape import RoleShape, Shape, Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """What a role asks for and the nearest thing that could be met.

    `field` is `gpus`, `cpus`, `memory_gib`, `models`, `min_memory_gib`, `node_labels` or `pools`. `asked` and
    `largest` are numbers in the unit of the field (GPUs, CPUs, GiB), or for models, labels and pools what
    was asked for and what there is, sorted. Pools are those that its queue allows, and those that have nodes.
    """

    role: str
    field: str
    asked: float | tuple[str, ...]
    largest: float | tuple[str, ...]


def check_members(shape: Shape, configuration: Configuration) -> tuple[Shortfall, ...]:
    """What no registered node can give to one member, by role; empty if each could sit somewhere.
    With no node registered at all nothing falls short: the nodes are still to come."""
    terms, pools = shape.terms, configuration.pools
    if not configuration.nodes:
        return ()
    allowed = {pool_id for pool_id, pool in pools.items() if terms.pools is None or pool.name in terms.pools}
    nodes = [node for _, node in sorted(configuration.nodes.items()) if node.pool_id in allowed]
    if not nodes:
        return (_pools(shape, configuration),)
    short: list[Shortfall] = []
    for role in shape.roles:
        filter_ = filter_of(role, terms)
        labelled = [node for node in nodes if filter_.allows(node, pools)]
        if labelled:
            short.extend(_check_role(role, labelled, filter_=filter_, terms=terms))
        else:
            short.append(_labels(role, nodes))
    return tuple(short)


def _pools(shape: Shape, configuration: Configuration) -> Shortfall:
    """All nodes are in pools that the queue does not allow."""
    there = {configuration.pools[node.pool_id].name for node in configuration.nodes.values()}
    asked = tuple(sorted(shape.terms.pools or ()))
    return Shortfall(role=shape.roles[0].name, field="pools", asked=asked, largest=tuple(sorted(there)))


def _check_role(
    role: RoleShape, labelled: list[Node], *, filter_: Filter, terms: Terms
) -> tuple[Shortfall, ...]:
    if missing := _check_devices(role, labelled, terms):
        return (missing,)
    amounts = [
        (len(_largest_kind(role, node, filter_)), node.cpus_milli, node.memory_mib)
        for node in labelled
        if not filter_.has_gpus or filter_.devices_of(kinds_of(node))
    ]
    asked = (role.requests.gpus, role.requests.cpus_milli, role.requests.memory_mib)
    return _short_amounts(role, asked, amounts)


def _short_amounts(
    role: RoleShape, asked: tuple[int, int, int], amounts: list[tuple[int, int, int]]
) -> tuple[Shortfall, ...]:
    """Amounts above those of every node; if each is met somewhere but not together, the first
    that is short on the nodes which meet those before it."""
    fields = (("gpus", 1), ("cpus", 1000), ("memory_gib", 1024))
    short: list[Shortfall] = []
    remaining = amounts
    for index, (field, unit) in enumerate(fields):
        largest = max((each[index] for each in remaining), default=0)
        if asked[index] > largest:
            short.append(
                Shortfall(role=role.name, field=field, asked=asked[index] / unit, largest=largest / unit)
            )
        else:
            remaining = [each for each in remaining if each[index] >= asked[index]]
    return tuple(short)


def _check_devices(role: RoleShape, nodes: list[Node], terms: Terms) -> Shortfall | None:
    """Whether any of the nodes has a device of the models, and of those one with the memory."""
    if not role.requests.gpus:
        return None
    devices = [device for node in nodes for device in node.devices]
    known = tuple(sorted({device.model for device in devices if _is_allowed(device.model, terms)}))
    if not devices:
        return Shortfall(role=role.name, field="gpus", asked=float(role.requests.gpus), largest=0.0)
    models = terms.models(role)
    fitting = [device for device in devices if models is not None and (not models or device.model in models)]
    if not fitting:
        return Shortfall(role=role.name, field="models", asked=role.models or models or (), largest=known)
    largest = max(device.memory_mib for device in fitting)
    if role.min_gpu_memory_mib > largest:
        return Shortfall(
            role=role.name,
            field="min_memory_gib",
            asked=role.min_gpu_memory_mib / 1024,
            largest=largest / 1024,
        )
    return None


def _is_allowed(model: str, terms: Terms) -> bool:
    return terms.flavors is None or model in terms.flavors


def _largest_kind(role: RoleShape, node: Node, filter_: Filter) -> frozenset[int]:
    """Devices of the model of which the node has most: a member's GPUs are of one model."""
    if not role.requests.gpus:
        return frozenset()
    models = sorted({device.model for device in node.devices})
    kinds = kinds_of(node)
    fitting = filter_.devices_of(kinds)
    return max((filter_.for_model(model).devices_of(kinds) & fitting for model in models), key=len)


def _labels(role: RoleShape, nodes: Iterable[Node]) -> Shortfall:
    """The values that the asked labels have on some node."""
    asked = tuple(f"{label}={value}" for label, value in role.node_labels)
    names = {label for label, _ in role.node_labels}
    known = {f"{label}={node.labels[label]}" for node in nodes for label in names if label in node.labels}
    return Shortfall(role=role.name, field="node_labels", asked=asked, largest=tuple(sorted(known)))
