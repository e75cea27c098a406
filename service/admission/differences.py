"""What one configuration has that another has not: a change touches only what it is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from service.admission.world import Node


class NodeChanges(NamedTuple):
    """`states`: machines that are as before and in another state; `rebuilt`: those that became something
    else (labels, pool, sizes, devices); `new` and `gone`."""

    states: tuple[Node, ...]
    rebuilt: tuple[Node, ...]
    new: tuple[Node, ...]
    gone: tuple[Node, ...]

    @property
    def is_of_states_alone(self) -> bool:
        return not (self.rebuilt or self.new or self.gone)


def node_changes(before: Mapping[int, Node], after: Mapping[int, Node]) -> NodeChanges:
    if before is after:
        return NodeChanges((), (), (), ())
    changed = [
        node
        for node_id, node in sorted(after.items())
        if (known := before.get(node_id)) is not None and known is not node and known != node
    ]
    states = tuple(node for node in changed if what_it_is(node) == what_it_is(before[node.id]))
    same = {node.id for node in states}
    return NodeChanges(
        states=states,
        rebuilt=tuple(node for node in changed if node.id not in same),
        new=tuple(after[node_id] for node_id in sorted(after.keys() - before.keys())),
        gone=tuple(before[node_id] for node_id in sorted(before.keys() - after.keys())),
    )


def what_it_is(node: Node) -> tuple[object, ...]:
    """What makes a node fit for a role, whatever its state."""
    devices = tuple((device.index, device.model, device.memory_mib) for device in node.devices)
    return node.name, node.pool_id, node.cpus_milli, node.memory_mib, node.labels, devices
