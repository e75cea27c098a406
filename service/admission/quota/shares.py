"""Shares: how much of what it competes for a queue or cohort holds, divided by its weight.

The share of a node is the largest, over all resources, of what is held in it to the nominal quota of all
of its parent. A root is measured by its own nominal quota, and where no quota says anything by the
cluster: nodes that compete for the same are measured by the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import inf

from service.admission.quota.nodes import QuotaNode
from service.admission.world import Configuration

_NOTHING: Mapping[str, float] = {}


def capacity_of(configuration: Configuration) -> Mapping[str, int]:
    """Devices by model, whatever their state."""
    return Counter(device.model for node in configuration.nodes.values() for device in node.devices)


def share_of(node: QuotaNode, capacity: Mapping[str, int], extra: Mapping[str, float] = _NOTHING) -> float:
    """`extra`: what counts besides what is held, by resource."""
    if node.weight <= 0:
        return inf
    total = (node.parent or node).total
    largest = 0.0
    for resource, held in (_sum(node.held, extra) if extra else node.held).items():
        if held > 0 and node.counts(resource):
            whole = total.get(resource) or capacity.get(resource)
            if whole and held / whole > largest:
                largest = held / whole
    return largest / node.weight


def _sum(held: Mapping[str, int], extra: Mapping[str, float]) -> Mapping[str, float]:
    return {each: held.get(each, 0) + extra.get(each, 0.0) for each in {**held, **extra}}


def in_order_of_shares(nodes: Iterable[QuotaNode], capacity: Mapping[str, int]) -> Iterator[int]:
    """Queues below these siblings, those of the lowest share first; among equals by id."""
    for node in sorted(nodes, key=lambda node: (share_of(node, capacity), not node.is_queue, node.id)):
        if node.is_queue:
            yield node.id
        else:
            yield from in_order_of_shares(node.children, capacity)


def where_they_part(one: QuotaNode, other: QuotaNode) -> tuple[QuotaNode, QuotaNode]:
    """The nodes above, or of, two queues that have the same parent, or none."""
    if one is other:
        return one, other
    above = {id(node.parent): node for node in reversed([*one.path()])}
    for node in other.path():
        if id(node.parent) in above:
            return above[id(node.parent)], node
    raise AssertionError("every path ends at a root")
