"""What a unit may come to hold, by quota resource: one way for each choice of models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, product

from service.admission.elastic.sizes import counts_of
from service.admission.nodes.query import NO_MODEL, RoleQuery, ShapeQuery
from service.admission.resident import World
from service.domain.node import Place
from service.domain.resources import CPUS, MEMORY
from service.domain.shape import usage_of

#: So many ways at most.
_MAX_WAYS = 24
_MAX_LOOKS = 500

_Split = tuple[int, ...]


def usages_of(query: ShapeQuery) -> list[Mapping[str, int]]:
    """Each role on one of its models first, in its order of preference, then mixed."""
    found: dict[tuple[tuple[str, int], ...], Mapping[str, int]] = {}
    whole = product(*(_whole(role) for role in query.roles))
    mixed = product(*(_mixed(role.count, len(role.models)) for role in query.roles))
    for splits in islice(chain(whole, mixed), _MAX_LOOKS):
        usage = _usage(query, splits)
        found.setdefault(tuple(sorted(usage.items())), usage)
        if len(found) == _MAX_WAYS:
            break
    return list(found.values())


def usage_at(world: World, shape_id: int, places: Sequence[Place]) -> Mapping[str, int]:
    """What a unit of the shape holds on these places."""
    models: dict[int, dict[str, int]] = {}
    for place in places:
        node = world.configuration.nodes.get(place.node_id)
        of_device = {device.index: device.model for device in node.devices} if node is not None else {}
        by_model = models.setdefault(place.role, {})
        for device in place.devices:
            if (model := of_device.get(device)) is not None:
                by_model[model] = by_model.get(model, 0) + 1
    shape = world.shapes[shape_id]
    return usage_of(shape.of_size(counts_of(shape, places)) if shape.is_elastic else shape, models)


def _whole(role: RoleQuery) -> Iterator[_Split]:
    for choice in range(len(role.models)):
        yield tuple(role.count if position == choice else 0 for position in range(len(role.models)))


def _mixed(count: int, parts: int) -> Iterator[_Split]:
    """Every way to share `count` members out, the first models first."""
    if parts == 1:
        yield (count,)
        return
    for first in range(count, -1, -1):
        for rest in _mixed(count - first, parts - 1):
            yield (first, *rest)


def _usage(query: ShapeQuery, splits: Iterable[_Split]) -> dict[str, int]:
    usage: dict[str, int] = {CPUS: query.total.cpus_milli, MEMORY: query.total.memory_mib}
    for role, split in zip(query.roles, splits, strict=True):
        for model, members in zip(role.models, split, strict=True):
            if model != NO_MODEL and members:
                usage[model] = usage.get(model, 0) + members * role.requests.gpus
    return usage
