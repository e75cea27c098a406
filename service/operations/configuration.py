"""The cluster's configuration, kept in a process and read again when its version moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlalchemy import Connection

from service.admission.nodes.feasibility import Shortfall, check_members
from service.admission.waiting.terms import terms_by_queue
from service.admission.world import Configuration, Node
from service.domain.queue import QueuePolicy
from service.domain.shape import Shape
from service.operations.learned_runtimes import KnownRuntimes
from service.store.priority_classes import list_priority_classes
from service.store.world_rows import read_configuration

_MOST_SHAPES = 10_000


class KnownConfiguration:
    """One for each process. Every change of queues, pools and nodes raises the version (L2). `runtimes`: what
    is known of how long groups run, which has no version."""

    def __init__(self) -> None:
        self.runtimes = KnownRuntimes()
        self._known: tuple[int, Cluster] | None = None

    def at(self, version: int, conn: Connection) -> Cluster:
        """As of this transaction, which has just read the version."""
        known = self._known
        if known is None or known[0] != version:
            before = None if known is None else known[1]
            configuration = read_configuration(conn, before=None if before is None else before.configuration)
            cluster = Cluster(configuration, list_priority_classes(conn), before=before)
            known = self._known = (configuration.version, cluster)
        return known[1]


class Cluster:
    """What a submission is compared with. Answers are found once for each shape, and as long as the nodes are
    those of `before`."""

    def __init__(
        self,
        configuration: Configuration,
        priority_classes: Mapping[str, int],
        *,
        before: Cluster | None = None,
    ) -> None:
        self.priority_classes = priority_classes
        self.configuration = configuration
        self._terms = {
            configuration.queues[queue_id].name: terms
            for queue_id, (terms, _) in terms_by_queue(configuration.queues).items()
        }
        has_same_nodes = before is not None and before.configuration.nodes is configuration.nodes
        self._found: dict[Shape, tuple[Shortfall, ...]]
        self._kinds: Configuration
        if before is not None and has_same_nodes:
            self._found, self._kinds = before._found, before._kinds
        else:
            self._found = {}
            self._kinds = replace(configuration, nodes=_one_of_each_kind(configuration.nodes))

    def policy_of(self, queue_id: int) -> QueuePolicy:
        return self.configuration.queues[queue_id].policy

    def levels_for(self, queue: str) -> frozenset[tuple[str, ...]]:
        """The topology levels that the pools have which the queue of this name may use, outermost first."""
        allowed = self._terms[queue].pools if queue in self._terms else None
        return frozenset(
            pool.levels
            for pool in self.configuration.pools.values()
            if allowed is None or pool.name in allowed
        )

    def on_terms(self, shape: Shape, queue: str) -> Shape:
        """The shape as the queue of this name allows it to be placed."""
        terms = self._terms.get(queue)
        return shape if terms is None else replace(shape, terms=terms)

    def shortfalls(self, shape: Shape) -> tuple[Shortfall, ...]:
        """What no registered node could give to one member of this shape."""
        known = self._found.get(shape)
        if known is None:
            if len(self._found) >= _MOST_SHAPES:
                self._found.clear()
            asks_labels = any(role.node_labels for role in shape.roles)
            nodes = self.configuration if asks_labels else self._kinds
            known = self._found[shape] = check_members(shape, nodes)
        return known


def _one_of_each_kind(nodes: Mapping[int, Node]) -> dict[int, Node]:
    """Whoever asks for no label is answered alike by all nodes that have the same, of ten thousand."""
    kinds: dict[object, Node] = {}
    for node in nodes.values():
        devices = tuple(sorted((device.model, device.memory_mib) for device in node.devices))
        kinds.setdefault((node.pool_id, node.cpus_milli, node.memory_mib, devices), node)
    return {node.id: node for node in kinds.values()}
