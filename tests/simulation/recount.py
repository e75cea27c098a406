"""What is free, held and allowed, counted anew from what a World holds: by nothing that the planner keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TypeAlias

from service.admission.resident import World
from service.admission.world import Configuration, Node, PendingUnit
from service.domain.claim import Claim, ClaimCause
from service.domain.node import Place
from service.domain.resources import CPUS, MEMORY, Resources
from service.domain.shape import RoleShape, Shape
from tests.unit.admission import oracle
from tests.unit.admission.quota_reference import Reference

Held: TypeAlias = tuple[Place, Resources]


class Recount:
    """Of one moment. Asking the same twice costs once."""

    def __init__(self, world: World) -> None:
        self.configuration = world.configuration
        self.pending = dict(world.pending)
        self.claims = dict(world.claims)
        self.shapes = world.shapes
        self.running = list(world.running.values())
        self.could_fit = world.could_fit
        self._places: dict[tuple[object, ...], bool] = {}

    # ------------------------------------------------------------------ places
    @cached_property
    def held(self) -> list[Held]:
        return [
            (place, self.shapes[unit.shape_id].roles[place.role].requests)
            for unit in self.running
            for place in unit.places
        ]

    @cached_property
    def on_node(self) -> Mapping[int, list[Held]]:
        found: dict[int, list[Held]] = {node_id: [] for node_id in self.configuration.nodes}
        for place, requests in self.held:
            found.setdefault(place.node_id, []).append((place, requests))
        return found

    def least(self, row: PendingUnit) -> Shape:
        """What has to fit for one unit of it."""
        return self.shapes[row.shape_id].at_least()

    def has_place(self, shape: Shape, *, beside: Iterable[Claim] = ()) -> bool:
        """Whatever the quota; `beside` claims that count as held, with all that they will take."""
        claims = tuple(beside)
        key = (shape, *(claim.unit_id for claim in claims))
        if key not in self._places:
            kept = [held for claim in claims for held in self._kept(claim)]
            self._places[key] = oracle.can_place(shape, self.configuration, [*self.held, *kept])
        return self._places[key]

    def _kept(self, claim: Claim) -> Iterable[Held]:
        roles = self.shapes[self.pending[claim.unit_id].shape_id].roles
        return ((place, roles[place.role].requests) for place in claim.places)

    def nodes(self, roles: Iterable[RoleShape], *, is_available: bool) -> list[Node]:
        """Those that one of the roles may use, that are up, or that are down or cordoned."""
        asked = tuple(roles)
        return [
            node
            for node in self.configuration.nodes.values()
            if (node.is_ready and not node.is_cordoned) is is_available
            and any(_allows(role, node) for role in asked)
        ]

    def free(self, roles: Iterable[RoleShape], resource: str, nodes: Iterable[Node]) -> int:
        """Of what nobody holds, what could be given to somebody."""
        asked = tuple(roles)
        return sum(self._free_on(node, asked, resource) for node in nodes)

    def unusable(self, roles: Iterable[RoleShape], nodes: Iterable[Node]) -> int:
        """GPUs that nobody holds, and that are unhealthy or lost."""
        asked = tuple(roles)
        return sum(
            not device.is_healthy or device.is_lost
            for node in nodes
            for device in node.devices
            if device.index in _eligible(asked, node) - self._taken_on(node)
        )

    def lying_idle(self, roles: Iterable[RoleShape], resource: str, nodes: Iterable[Node]) -> int:
        """Of what nobody holds on nodes that are down or cordoned, what comes back with them."""
        asked, total = tuple(roles), 0
        for node in nodes:
            if resource == "gpus" and not node.is_ready:
                total += len(_eligible(asked, node) - self._taken_on(node))
            else:
                total += self._free_on(node, asked, resource)
        return total

    def _free_on(self, node: Node, roles: tuple[RoleShape, ...], resource: str) -> int:
        if resource == "cpus":
            return node.cpus_milli - sum(each.cpus_milli for _, each in self.on_node[node.id])
        if resource == "memory":
            return node.memory_mib - sum(each.memory_mib for _, each in self.on_node[node.id])
        usable = {device.index for device in node.devices if device.is_healthy and not device.is_lost}
        return len(usable & _eligible(roles, node) - self._taken_on(node))

    def _taken_on(self, node: Node) -> set[int]:
        return {device for place, _ in self.on_node[node.id] for device in place.devices}

    # ------------------------------------------------------------------ quota
    @cached_property
    def quota(self) -> Reference:
        return Reference(self.configuration, self.used)

    @cached_property
    def used(self) -> Mapping[int, Mapping[str, int]]:
        used: dict[int, Counter[str]] = {}
        for unit in self.running:
            used.setdefault(unit.queue_id, Counter()).update(unit.usage)
        return used

    def claimed(self, row: PendingUnit) -> bool:
        """Whether others give way to somebody, so that quota of the row's tree is on its way to it."""
        return any(claim.cause is ClaimCause.PREEMPTION for claim in self.claims.values())

    def short_of(self, row: PendingUnit) -> set[str]:
        """Resources of which its queue may not take as much as one unit needs."""
        return {
            resource
            for resource, need in needs_of(self.least(row)).items()
            if need and (left := self.quota.available(row.queue_id, resource)) is not None and need > left
        }

    def is_over_own_limits(self, row: PendingUnit) -> bool:
        """Of its user, of its group, or of what its queue may hold without borrowing."""
        queue = self.configuration.queues[row.queue_id]
        of_queue = [unit for unit in self.running if unit.queue_id == row.queue_id]
        of_user = [unit for unit in of_queue if unit.owner == row.owner]
        of_group = [unit for unit in of_queue if unit.group_id == row.group_id]
        own = (queue.quota.nominal or {}) if not row.is_preemptible and queue.cohort_id else {}
        limits = (
            (queue.policy.user_limit, of_user),
            (queue.policy.group_limit, of_group),
            (own, of_queue),
        )
        return any(
            need + sum(unit.usage.get(resource, 0) for unit in units) > limit.get(resource, 1 << 60)
            for limit, units in limits
            for resource, need in needs_of(self.least(row)).items()
            if need
        )


def idle(configuration: Configuration) -> Configuration:
    """All nodes up, all devices well."""
    nodes = {
        key: replace(
            node,
            is_ready=True,
            is_cordoned=False,
            devices=tuple(replace(each, is_healthy=True, is_lost=False) for each in node.devices),
        )
        for key, node in configuration.nodes.items()
    }
    return replace(configuration, nodes=nodes)


def needs_of(shape: Shape) -> dict[str, int]:
    """By quota resource, of shapes that may use one model: all GPUs are `mx`."""
    total = shape.total()
    return {"mx": total.gpus, CPUS: total.cpus_milli, MEMORY: total.memory_mib}


def _allows(role: RoleShape, node: Node) -> bool:
    has_labels = all(node.labels.get(label) == value for label, value in role.node_labels)
    return has_labels and (not role.requests.gpus or bool(_eligible((role,), node)))


def _eligible(roles: Iterable[RoleShape], node: Node) -> set[int]:
    """Devices that one of the roles may use, whatever their health."""
    return {
        device.index
        for role in roles
        for device in node.devices
        if role.requests.gpus
        and (not role.models or device.model in role.models)
        and device.memory_mib >= role.min_gpu_memory_mib
    }
