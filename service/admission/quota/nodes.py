"""Queues and cohorts as nodes of one tree of quotas: what each has, keeps for itself and passes up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from service.admission.world import Configuration
from service.domain.queue import Quota
from service.domain.resources import CPUS, MEMORY

Amounts = dict[str, int]


@dataclass(slots=True, eq=False, kw_only=True)
class QuotaNode:
    """One queue or cohort. By resource:

    `nominal`: its own; `total`: that of all of its subtree; `subtree`: what it can give to its members, or
    use, which is its own and what its children lend to it; `guaranteed`: the part of that which it does not
    lend. `held`: what is held in it; `usage`: the part of that which what its children guarantee to their
    own does not cover, so what above its own `guaranteed` is taken from its parent.
    `has_quota` False: a queue that only nodes bound. `counted`: which of CPUs and memory its quota bounds.
    """

    id: int
    is_queue: bool
    weight: float
    quota: Quota
    has_quota: bool = True
    parent: QuotaNode | None = None
    children: list[QuotaNode] = field(default_factory=list)
    nominal: Mapping[str, int]
    counted: frozenset[str] = frozenset()
    total: Amounts = field(default_factory=dict)
    subtree: Amounts = field(default_factory=dict)
    guaranteed: Amounts = field(default_factory=dict)
    held: Amounts = field(default_factory=dict)
    usage: Amounts = field(default_factory=dict)
    #: The most that one of its children keeps to itself; which of CPUs and memory all of its queues count.
    kept_below: Amounts = field(default_factory=dict)
    counted_below: frozenset[str] = frozenset({CPUS, MEMORY})
    root: QuotaNode = field(init=False)
    #: Itself and all above it.
    line: tuple[QuotaNode, ...] = field(init=False)
    #: Stands for what is held in it: another one whenever that has changed.
    revision: int = 0

    def __post_init__(self) -> None:
        self.root = self if self.parent is None else self.parent.root
        self.line = (self,) if self.parent is None else (self, *self.parent.line)

    def counts(self, resource: str) -> bool:
        """Whether what is held of the resource is counted against a quota: flavors always."""
        return resource in self.counted or resource not in (CPUS, MEMORY)

    def borrowed(self, resource: str) -> int:
        """How much it takes from its parent, what it lent included."""
        return max(0, self.usage.get(resource, 0) - self.guaranteed.get(resource, 0))

    def path(self) -> Iterator[QuotaNode]:
        """Itself and all above it."""
        return iter(self.line)


def build_nodes(configuration: Configuration) -> tuple[dict[int, QuotaNode], dict[int, QuotaNode]]:
    """Queues and cohorts by id, nothing held."""
    # 1. Cohorts, from the roots down.
    cohorts: dict[int, QuotaNode] = {}
    for cohort_id in _from_the_roots(configuration):
        cohort = configuration.cohorts[cohort_id]
        cohorts[cohort_id] = _node(
            cohort_id, cohort.quota, parent=cohorts.get(cohort.parent_id or 0), weight=cohort.weight
        )
    # 2. Their queues, and those that are in none.
    queues = {
        queue.id: _node(
            queue.id,
            queue.quota,
            parent=cohorts.get(queue.cohort_id or 0),
            weight=queue.policy.weight,
            is_queue=True,
        )
        for queue in sorted(configuration.queues.values(), key=lambda queue: queue.id)
    }
    # 3. Amounts, from the queues up.
    for node in (*queues.values(), *reversed(cohorts.values())):
        _pass_up(node)
    return queues, cohorts


def _from_the_roots(configuration: Configuration) -> Iterator[int]:
    below: dict[int | None, list[int]] = {}
    for cohort in sorted(configuration.cohorts.values(), key=lambda cohort: cohort.id):
        below.setdefault(cohort.parent_id, []).append(cohort.id)
    level = below.get(None, [])
    while level:
        yield from level
        level = [child for cohort_id in level for child in below.get(cohort_id, ())]


def _node(
    node_id: int, quota: Quota, *, parent: QuotaNode | None, weight: float, is_queue: bool = False
) -> QuotaNode:
    nominal = quota.nominal or {}
    named = {resource for resource in (CPUS, MEMORY) if resource in nominal}
    node = QuotaNode(
        id=node_id,
        is_queue=is_queue,
        weight=weight,
        quota=quota,
        has_quota=quota.nominal is not None or parent is not None,
        parent=parent,
        nominal=nominal,
        counted=frozenset(named) if parent is None else parent.counted | named,
    )
    if parent is not None:
        parent.children.append(node)
        if is_queue:
            parent.counted_below &= node.counted
    return node


def _pass_up(node: QuotaNode) -> None:
    """Children come before their parents."""
    _add(node.subtree, node.nominal.items())
    _add(node.total, node.nominal.items())
    lending = node.quota.lending
    node.guaranteed = {
        resource: max(0, amount - lending[resource])
        for resource, amount in node.subtree.items()
        if resource in lending
    }
    if node.parent is not None:
        kept = node.guaranteed
        lent = [(resource, amount - kept.get(resource, 0)) for resource, amount in node.subtree.items()]
        _add(node.parent.subtree, lent)
        _add(node.parent.total, node.total.items())
        for resource, amount in kept.items():
            node.parent.kept_below[resource] = max(amount, node.parent.kept_below.get(resource, 0))


def _add(to: Amounts, amounts: Iterable[tuple[str, int]]) -> None:
    for resource, amount in amounts:
        to[resource] = to.get(resource, 0) + amount
