"""Quotas of queues and cohorts, what is held of them, and how much more each queue may take.

The rules are those of Kueue's hierarchical cohorts. A node's parent has what its children lend to it, and
is charged with what they take above what they keep to themselves:

    subtree(n)    = nominal(n) + sum over children c of min(lending(c), subtree(c))
    guaranteed(n) = max(0, subtree(n) - lending(n)), 0 where all is lent
    available(n)  = subtree(n) - usage(n) of a root, else
                    max(0, guaranteed(n) - usage(n)) + min(available(parent),
                        (subtree(n) - guaranteed(n)) - max(0, usage(n) - guaranteed(n)) + borrowing(n))
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from service.admission import shares
from service.admission.differences import NodeChanges
from service.admission.plan import Shares
from service.admission.quota_nodes import QuotaNode, build_nodes
from service.admission.world import Configuration
from service.domain.reasons import Code

Usage = dict[int, dict[str, int]]


class Room(NamedTuple):
    """How much more a queue may take of a resource, and what bounds it: its quota or hard limit
    (QuotaExceeded), a borrowing limit, or what is left to lend. `cohort_id`: whose borrowing limit, or
    where nothing is left; None: the queue's own. `limit` is the most that may be held there."""

    amount: int
    code: Code
    cohort_id: int | None
    limit: int


class QuotaTree:
    """`used`: what each queue holds, by resource. Whatever is charged can be refunded, in any order; the
    caller sees to it that the World's tree is as before when a cycle ends."""

    def __init__(
        self,
        configuration: Configuration,
        used: Mapping[int, Mapping[str, int]],
        capacity: Mapping[str, int] | None = None,
    ) -> None:
        """`capacity`: devices by model, if the configuration comes without its nodes."""
        self._configuration = configuration
        if capacity is not None:
            self.capacity = capacity
        self.queues, self.cohorts = build_nodes(configuration)
        for queue_id, usage in used.items():
            self.charge(queue_id, usage)

    @cached_property
    def capacity(self) -> Mapping[str, int]:
        """Devices of the cluster by model: what is shared where no quota says more."""
        return shares.capacity_of(self._configuration)

    def has_devices_of(self, configuration: Configuration, changes: NodeChanges) -> bool:
        """Whether what is shared stays what it is with nodes that changed so."""
        return changes.is_of_states_alone or self.capacity == shares.capacity_of(configuration)

    def charge(self, queue_id: int, usage: Mapping[str, int]) -> None:
        """The queue holds so much more. Of a queue that the configuration does not know: nothing."""
        node = self.queues.get(queue_id)
        for resource, amount in usage.items() if node is not None else ():
            if node is not None and amount:
                _add(node, resource, amount)

    def refund(self, queue_id: int, usage: Mapping[str, int]) -> None:
        self.charge(queue_id, {resource: -amount for resource, amount in usage.items()})

    def revision(self, queue_id: int) -> int | None:
        """Moves whenever what is left for the queue may have changed; None for a queue that is not there."""
        node = self.queues.get(queue_id)
        return None if node is None else _root(node).revision

    def held(self, queue_id: int, resource: str) -> int:
        node = self.queues.get(queue_id)
        return 0 if node is None else node.held.get(resource, 0)

    def available(self, queue_id: int, resource: str) -> int | None:
        """How much more the queue may take, None for no bound; 0 also where too much is held because a
        quota was lowered."""
        room = self.room(queue_id, resource)
        return None if room is None else room.amount

    def room(self, queue_id: int, resource: str) -> Room | None:
        """As `available`, with what bounds it: the tightest, and its own before that of others."""
        node = self.queues[queue_id]
        rooms: list[Room] = []
        limit = (node.quota.limit or {}).get(resource)
        if limit is not None:
            rooms.append(Room(limit - node.held.get(resource, 0), Code.QUOTA_EXCEEDED, None, limit))
        if node.has_quota and node.counts(resource):
            rooms.append(_room(node, resource))
        if not rooms:
            return None
        room = min(rooms, key=lambda room: room.amount)
        return room if room.amount >= 0 else room._replace(amount=0)

    def ceiling(self, queue_id: int, resource: str) -> int | None:
        """The most that the queue could ever hold if nobody else held anything, None for no bound."""
        node = self.queues[queue_id]
        limit = (node.quota.limit or {}).get(resource)
        if not node.has_quota or not node.counts(resource):
            return limit
        most = _potential(node, resource)
        return most if limit is None else min(most, limit)

    def is_within_nominal(self, queue_id: int, usage: Mapping[str, int]) -> bool:
        """Whether the queue would hold no more than its own nominal quota of all that `usage` takes."""
        node = self.queues[queue_id]
        return not node.has_quota or all(
            node.held.get(resource, 0) + amount <= node.nominal.get(resource, 0)
            for resource, amount in usage.items()
            if amount and node.counts(resource)
        )

    def own_room(self, queue_id: int, resource: str) -> int:
        """What is left of its own nominal quota, whatever others have borrowed of it."""
        node = self.queues[queue_id]
        return max(0, node.nominal.get(resource, 0) - node.held.get(resource, 0))

    def excess(self, queue_id: int, resource: str) -> int:
        """How much the queue holds above its own nominal quota, 0 where it has none."""
        node = self.queues[queue_id]
        if not node.has_quota or not node.counts(resource):
            return 0
        return max(0, node.held.get(resource, 0) - node.nominal.get(resource, 0))

    def share(self, queue_id: int) -> float:
        """Weighted dominant share among what has the same parent; infinite for weight 0."""
        return shares.share_of(self.queues[queue_id], self.capacity)

    def ranks(self) -> dict[int, int]:
        """Queue to its number in the order of shares, 1 for the first: down the tree, whatever waits."""
        roots = [node for node in (*self.queues.values(), *self.cohorts.values()) if node.parent is None]
        order = shares.in_order_of_shares(roots, self.capacity)
        return {queue_id: number for number, queue_id in enumerate(order, start=1)}

    def shares(self, claimant: int, victim: int) -> Shares:
        """Shares of two queues where they part: of the nodes above them that have the same parent."""
        one, other = shares.where_they_part(self.queues[claimant], self.queues[victim])
        return Shares(
            claimant=shares.share_of(one, self.capacity), victim=shares.share_of(other, self.capacity)
        )


def _add(node: QuotaNode, resource: str, amount: int) -> None:
    """Charge a queue, or refund it if the amount is negative, and all above it."""
    _root(node).revision += 1
    if not node.counts(resource):
        node.held[resource] = node.held.get(resource, 0) + amount
        return
    taken = amount
    for each in node.path():
        each.held[resource] = each.held.get(resource, 0) + amount
        before = each.borrowed(resource)
        each.usage[resource] = each.usage.get(resource, 0) + taken
        taken = each.borrowed(resource) - before


def _root(node: QuotaNode) -> QuotaNode:
    while node.parent is not None:
        node = node.parent
    return node


def _room(node: QuotaNode, resource: str) -> Room:
    subtree, usage = node.subtree.get(resource, 0), node.usage.get(resource, 0)
    if node.parent is None:
        code = Code.QUOTA_EXCEEDED if node.is_queue else Code.LENDING_LIMIT
        return Room(subtree - usage, code, None if node.is_queue else node.id, subtree)
    room, guaranteed = _room(node.parent, resource), node.guaranteed.get(resource, 0)
    borrowing = node.quota.borrowing.get(resource)
    if borrowing is not None:
        most = subtree - guaranteed - max(0, usage - guaranteed) + borrowing
        if most <= room.amount:
            cohort_id = None if node.is_queue else node.id
            room = Room(most, Code.BORROWING_LIMIT, cohort_id, subtree + borrowing)
    own = max(0, guaranteed - usage)
    return room._replace(amount=own + room.amount) if own else room


def _potential(node: QuotaNode, resource: str) -> int:
    subtree = node.subtree.get(resource, 0)
    if node.parent is None:
        return subtree
    most = node.guaranteed.get(resource, 0) + _potential(node.parent, resource)
    borrowing = node.quota.borrowing.get(resource)
    return most if borrowing is None else min(most, subtree + borrowing)
