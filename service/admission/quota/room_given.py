"""How much quota a queue has left of one resource when some units are gone: the tree stays as it is."""

from __future__ import annotations

from service.admission.quota.nodes import QuotaNode
from service.admission.quota.tree import QuotaTree, most_borrowed


class RoomGiven:
    """`amount`: so much is asked for. The rules are those of the tree (QuotaTree)."""

    def __init__(self, tree: QuotaTree, queue_id: int, resource: str, amount: int) -> None:
        self._tree = tree
        self._queue = tree.queues[queue_id]
        self._resource = resource
        self._amount = amount
        #: What differs from the tree: usage by node.
        self._usage: dict[QuotaNode, int] = {}
        self._own = 0

    def take(self, queue_id: int, amount: int) -> None:
        """The queue holds so much less, or more if the amount is negative."""
        node = self._tree.queues.get(queue_id)
        if node is None:
            return
        if node is self._queue:
            self._own += amount
        if not node.counts(self._resource):
            return
        taken = -amount
        for each in node.line:
            before, own = self._of(each), each.guaranteed.get(self._resource, 0)
            after = self._usage[each] = before + taken
            taken = max(0, after - own) - max(0, before - own)
            if not taken:
                return

    def missing(self) -> int:
        """How much more would have to be given, 0 if it suffices."""
        node, resource = self._queue, self._resource
        left: int | None = None
        if node.has_quota and node.counts(resource):
            left = self._left(node)
        limit = None if node.quota.limit is None else node.quota.limit.get(resource)
        if limit is not None:
            most = limit - node.held.get(resource, 0) + self._own
            left = most if left is None else min(left, most)
        return 0 if left is None else max(0, self._amount - left)

    def _of(self, node: QuotaNode) -> int:
        known = self._usage.get(node)
        return node.usage.get(self._resource, 0) if known is None else known

    def _left(self, node: QuotaNode) -> int:
        usage, resource = self._of(node), self._resource
        if node.parent is None:
            return node.subtree.get(resource, 0) - usage
        left = self._left(node.parent)
        if resource in node.quota.borrowing:
            left = min(left, most_borrowed(node, resource, usage))
        own = node.guaranteed.get(resource, 0) - usage
        return own + left if own > 0 else left
