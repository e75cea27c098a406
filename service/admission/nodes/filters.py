"""Which nodes, and which of their devices, a role may use: labels, models and GPU memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from service.admission.world import Node, Pool
from service.domain.shape import RoleShape, Terms

#: No model and no pool has this name.
_NOTHING = ("",)


class Kind(NamedTuple):
    """Devices of one node that are alike."""

    model: str
    memory_mib: int
    devices: frozenset[int]


def kinds_of(node: Node) -> tuple[Kind, ...]:
    kinds: dict[tuple[str, int], list[int]] = {}
    for device in node.devices:
        kinds.setdefault((device.model, device.memory_mib), []).append(device.index)
    return tuple(Kind(model, memory, frozenset(devices)) for (model, memory), devices in kinds.items())


class Filter(NamedTuple):
    """What a role asks of a node, apart from amounts. `models` and `pools` empty for any."""

    has_gpus: bool
    models: tuple[str, ...]
    min_memory_mib: int
    labels: tuple[tuple[str, str], ...]
    pools: tuple[str, ...] = ()

    def allows(self, node: Node, pools: Mapping[int, Pool]) -> bool:
        """By labels and pool."""
        if self.pools and ((pool := pools.get(node.pool_id)) is None or pool.name not in self.pools):
            return False
        return all(node.labels.get(label) == value for label, value in self.labels)

    def devices_of(self, kinds: Iterable[Kind]) -> frozenset[int]:
        """Devices that the role may use, whatever their health; none for a role without GPUs."""
        if not self.has_gpus:
            return frozenset()
        fitting = [
            kind.devices
            for kind in kinds
            if (not self.models or kind.model in self.models) and kind.memory_mib >= self.min_memory_mib
        ]
        return fitting[0] if len(fitting) == 1 else frozenset().union(*fitting)

    def for_model(self, model: str) -> Filter:
        return self._replace(models=(model,))

    def text(self) -> str:
        """A short name that is the same in every process: part of the keys of shared numbers."""
        devices = f"{','.join(self.models) or '*'}>={self.min_memory_mib}" if self.has_gpus else "-"
        pools = (f"pool:{','.join(self.pools)}",) if self.pools else ()
        return ";".join((devices, *(f"{label}={value}" for label, value in self.labels), *pools))


def filter_of(role: RoleShape, terms: Terms) -> Filter:
    """Of a role on the terms of its queue."""
    has_gpus = role.requests.gpus > 0
    models = terms.models(role) if has_gpus else ()
    return Filter(
        has_gpus=has_gpus,
        models=_NOTHING if models is None else tuple(sorted(set(models))),
        min_memory_mib=role.min_gpu_memory_mib if has_gpus else 0,
        labels=role.node_labels,
        pools=() if terms.pools is None else tuple(sorted(terms.pools)) or _NOTHING,
    )
