"""Quotas as their definitions say them, computed anew for each question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from service.admission.world import Cohort, Configuration, Queue
from service.domain.resources import CPUS, MEMORY

Used = Mapping[int, Mapping[str, int]]


@dataclass(frozen=True)
class Reference:
    """`used`: what each queue holds."""

    configuration: Configuration
    used: Used

    def available(self, queue_id: int, resource: str) -> int | None:
        """At least 0; None for no bound."""
        queue = self.configuration.queues[queue_id]
        held = self.used.get(queue_id, {}).get(resource, 0)
        bounds = [] if self.is_unbounded(queue, resource) else [self.left(queue, resource)]
        if queue.quota.limit is not None and resource in queue.quota.limit:
            bounds.append(queue.quota.limit[resource] - held)
        return max(0, min(bounds)) if bounds else None

    def ceiling(self, queue_id: int, resource: str) -> int | None:
        return Reference(self.configuration, {}).available(queue_id, resource)

    def is_unbounded(self, queue: Queue, resource: str) -> bool:
        """No quota at all, or CPUs or memory that neither it nor a cohort above it names."""
        above = [each for each in self._path(queue) if resource in (each.quota.nominal or {})]
        if resource in (CPUS, MEMORY):
            return not above
        return queue.quota.nominal is None and queue.cohort_id is None

    def held(self, node: Queue | Cohort, resource: str) -> int:
        """In all of its subtree, where it is counted."""
        if isinstance(node, Queue):
            is_counted = resource not in (CPUS, MEMORY) or not self.is_unbounded(node, resource)
            return self.used.get(node.id, {}).get(resource, 0) if is_counted else 0
        return sum(self.held(child, resource) for child in self.children(node))

    def children(self, cohort: Cohort) -> list[Queue | Cohort]:
        queues = [each for each in self.configuration.queues.values() if each.cohort_id == cohort.id]
        cohorts = [each for each in self.configuration.cohorts.values() if each.parent_id == cohort.id]
        return [*queues, *cohorts]

    def parent(self, node: Queue | Cohort) -> Cohort | None:
        parent_id = node.cohort_id if isinstance(node, Queue) else node.parent_id
        return None if parent_id is None else self.configuration.cohorts[parent_id]

    def total(self, node: Queue | Cohort, resource: str) -> int:
        own = (node.quota.nominal or {}).get(resource, 0)
        children = self.children(node) if isinstance(node, Cohort) else []
        return own + sum(self.total(child, resource) for child in children)

    def share(self, node: Queue | Cohort) -> float:
        if node_weight(node) == 0:
            return inf
        whole, devices = self.parent(node) or node, self._devices()
        resources = {resource for used in self.used.values() for resource in used}
        shares = [
            self.held(node, resource) / of
            for resource in resources
            if (of := self.total(whole, resource) or devices.get(resource, 0))
        ]
        return max(shares, default=0.0) / node_weight(node)

    def usage(self, node: Queue | Cohort, resource: str) -> int:
        if isinstance(node, Queue):
            return self.held(node, resource)
        return sum(
            max(0, self.usage(child, resource) - self.guaranteed(child, resource))
            for child in self.children(node)
        )

    def subtree(self, node: Queue | Cohort, resource: str) -> int:
        own = (node.quota.nominal or {}).get(resource, 0)
        children = self.children(node) if isinstance(node, Cohort) else []
        return own + sum(
            self.subtree(child, resource) - self.guaranteed(child, resource) for child in children
        )

    def guaranteed(self, node: Queue | Cohort, resource: str) -> int:
        lending = node.quota.lending.get(resource)
        return 0 if lending is None else max(0, self.subtree(node, resource) - lending)

    def left(self, node: Queue | Cohort, resource: str) -> int:
        """Of what quotas allow; below 0 where too much is held."""
        subtree, usage = self.subtree(node, resource), self.usage(node, resource)
        parent = self.parent(node)
        if parent is None:
            return subtree - usage
        guaranteed, borrowing = self.guaranteed(node, resource), node.quota.borrowing.get(resource)
        left = self.left(parent, resource)
        if borrowing is not None:
            left = min(left, subtree - guaranteed - max(0, usage - guaranteed) + borrowing)
        return max(0, guaranteed - usage) + left

    def _path(self, node: Queue | Cohort) -> list[Queue | Cohort]:
        parent = self.parent(node)
        return [node, *(self._path(parent) if parent is not None else [])]

    def _devices(self) -> dict[str, int]:
        devices: dict[str, int] = {}
        for node in self.configuration.nodes.values():
            for device in node.devices:
                devices[device.model] = devices.get(device.model, 0) + 1
        return devices


def node_weight(node: Queue | Cohort) -> float:
    return node.policy.weight if isinstance(node, Queue) else node.weight
