"""Which nodes, and which of their devices, a role may use: labels, models and GPU memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from service.admission.world import Node
from service.domain.shape import RoleShape


class Filter(NamedTuple):
    """What a role asks of a node, apart from amounts. `models` empty for any model."""

    has_gpus: bool
    models: tuple[str, ...]
    min_memory_mib: int
    labels: tuple[tuple[str, str], ...]

    def allows_labels(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(label) == value for label, value in self.labels)

    def devices_of(self, node: Node) -> frozenset[int]:
        """Devices that the role may use, whatever their health; none for a role without GPUs."""
        if not self.has_gpus:
            return frozenset()
        return frozenset(
            device.index
            for device in node.devices
            if (not self.models or device.model in self.models) and device.memory_mib >= self.min_memory_mib
        )

    def allows(self, node: Node) -> bool:
        return self.allows_labels(node.labels) and (not self.has_gpus or bool(self.devices_of(node)))

    def for_model(self, model: str) -> Filter:
        return self._replace(models=(model,))

    def text(self) -> str:
        """A short name that is the same in every process: part of the keys of shared numbers."""
        devices = f"{','.join(self.models) or '*'}>={self.min_memory_mib}" if self.has_gpus else "-"
        return ";".join((devices, *(f"{label}={value}" for label, value in self.labels)))


def filter_of(role: RoleShape) -> Filter:
    has_gpus = role.requests.gpus > 0
    return Filter(
        has_gpus=has_gpus,
        models=tuple(sorted(set(role.models))) if has_gpus else (),
        min_memory_mib=role.min_gpu_memory_mib if has_gpus else 0,
        labels=role.node_labels,
    )
