"""How much a queue could take if queues held something else than they do: the tree itself is left alone."""

from __future__ import annotations

from collections.abc import Mapping

from service.admission.quota.nodes import QuotaNode
from service.admission.quota.tree import QuotaTree


def room_with(tree: QuotaTree, queue_id: int, resource: str, changes: Mapping[int, int]) -> int | None:
    """As `QuotaTree.available`, if each of these queues held so much more; it may be below 0."""
    node = tree.queues[queue_id]
    rooms: list[int] = []
    limit = (node.quota.limit or {}).get(resource)
    if limit is not None:
        rooms.append(limit - node.held.get(resource, 0) - changes.get(queue_id, 0))
    if node.has_quota and node.counts(resource):
        rooms.append(_room(node, resource, _usages(tree, resource, changes)))
    return min(rooms) if rooms else None


def _usages(tree: QuotaTree, resource: str, changes: Mapping[int, int]) -> dict[QuotaNode, int]:
    """The usage of the nodes for which it is another."""
    usages: dict[QuotaNode, int] = {}
    for queue_id, taken in changes.items():
        path = tree.queues[queue_id].path() if tree.queues[queue_id].counts(resource) else ()
        for node in path:
            before = usages.get(node, node.usage.get(resource, 0))
            usages[node] = before + taken
            kept = node.guaranteed.get(resource, 0)
            taken = max(0, before + taken - kept) - max(0, before - kept)  # noqa: PLW2901
    return usages


def _room(node: QuotaNode, resource: str, usages: Mapping[QuotaNode, int]) -> int:
    subtree = node.subtree.get(resource, 0)
    usage = usages.get(node, node.usage.get(resource, 0))
    if node.parent is None:
        return subtree - usage
    room, guaranteed = _room(node.parent, resource, usages), node.guaranteed.get(resource, 0)
    borrowing = node.quota.borrowing.get(resource)
    if borrowing is not None:
        room = min(room, subtree - guaranteed - max(0, usage - guaranteed) + borrowing)
    return max(0, guaranteed - usage) + room
