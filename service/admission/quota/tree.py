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

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import inf
from typing import NamedTuple

from service.admission.differences import NodeChanges
from service.admission.plan import Shares
from service.admission.quota import shares
from service.admission.quota.nodes import QuotaNode, build_nodes
from service.admission.quota.tree_changes import TreeChanges, differences, stands_as, touched_roots
from service.admission.world import Configuration
from service.domain.reasons import Code

Usage = dict[int, dict[str, int]]


class Room(NamedTuple):
    """How much more a queue may take of a resource, and what bounds it: its quota or hard limit
    (QuotaExceeded), a borrowing limit, or what is left to lend. `cohort_id`: whose borrowing limit, or
    where nothing is left; None: the queue's own. `limit` is the most that may be held there. `of`: the cohort
    whose members have just as much left, all of them; None if it is the queue's own amount."""

    amount: int
    code: Code
    cohort_id: int | None
    limit: int
    of: int | None = None


class Reach(NamedTuple):
    """How much more a queue may take follows from what its cohort has left: `own` more than that, of which it
    may use up to `most`."""

    own: int
    most: float


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
        self._charges = 0
        #: What the members of a cohort have left, with the revision of its root.
        self._rooms: dict[tuple[int, str], tuple[int, Room]] = {}
        self._shares: dict[QuotaNode, tuple[int, float]] = {}
        self._are_above: dict[int, tuple[int, bool]] = {}
        for queue_id, usage in used.items():
            self.charge(queue_id, usage)

    @cached_property
    def capacity(self) -> Mapping[str, int]:
        """Devices of the cluster by model: what is shared where no quota says more."""
        return shares.capacity_of(self._configuration)

    def follow(
        self, configuration: Configuration, used: Mapping[int, Mapping[str, int]], nodes: NodeChanges
    ) -> TreeChanges:
        """Go on with other queues, cohorts and nodes: trees in which nothing has changed stay what they are.
        `used`: as ever, what each queue holds."""
        # 1. What is shared where no quota says more.
        before, self._configuration = self._configuration, configuration
        if not nodes.is_of_states_alone:
            self.__dict__.pop("capacity", None)
            self._shares.clear()
        # 2. Trees in which anything has changed are made anew, with revisions that nobody has seen (each
        #    charge has its own).
        found = differences(before, configuration)
        roots = touched_roots(found, configuration, queues=self.queues, cohorts=self.cohorts)
        if not roots and not found.queues and not found.cohorts:
            return TreeChanges()
        gone = {each: node for each, node in self.queues.items() if node.root in roots}
        new = self._replace_trees(roots, used)
        # 3. A queue of such a tree for which all is as before goes on to be one of which nothing has moved.
        near = gone.keys() | new.keys()
        same = {
            each
            for each in gone.keys() & new.keys() - found.queues
            if stands_as(gone[each], new[each], found.renamed)
        }
        for each in same:
            new[each].revision = gone[each].revision
        return TreeChanges(queues=frozenset(near - same), near=frozenset(near))

    def _replace_trees(
        self, roots: Collection[QuotaNode], used: Mapping[int, Mapping[str, int]]
    ) -> Mapping[int, QuotaNode]:
        """Make all anew that is in trees of these roots, or not there yet. Returns the queues of it."""
        queues = {each: node for each, node in self.queues.items() if node.root not in roots}
        cohorts = {each: node for each, node in self.cohorts.items() if node.root not in roots}
        whole = self._configuration
        part = replace(
            whole,
            queues={each: queue for each, queue in whole.queues.items() if each not in queues},
            cohorts={each: cohort for each, cohort in whole.cohorts.items() if each not in cohorts},
        )
        new_queues, new_cohorts = build_nodes(part)
        self.queues = dict(sorted({**queues, **new_queues}.items()))
        self.cohorts = {**cohorts, **new_cohorts}
        self._rooms.clear()
        self._shares = {node: known for node, known in self._shares.items() if node.root not in roots}
        for queue_id in new_queues:
            self.charge(queue_id, used.get(queue_id, {}))
        return new_queues

    def charge(self, queue_id: int, usage: Mapping[str, int]) -> None:
        """The queue holds so much more. Of a queue that the configuration does not know: nothing."""
        node = self.queues.get(queue_id)
        if node is None:
            return
        self._charges += 1
        for resource, amount in usage.items():
            if amount:
                _add(node, resource, amount)
        for each in node.line:
            each.revision = self._charges

    def refund(self, queue_id: int, usage: Mapping[str, int]) -> None:
        self.charge(queue_id, {resource: -amount for resource, amount in usage.items()})

    def revision(self, queue_id: int) -> int | None:
        """Another one whenever what is left for the queue may have changed; None for a queue that is not
        there."""
        node = self.queues.get(queue_id)
        return None if node is None else node.root.revision

    def held(self, queue_id: int, resource: str) -> int:
        node = self.queues.get(queue_id)
        return 0 if node is None else node.held.get(resource, 0)

    def available(self, queue_id: int, resource: str) -> int | None:
        """How much more the queue may take, None for no bound; 0 also where too much is held because a
        quota was lowered."""
        node = self.queues[queue_id]
        left = _left(node, resource) if node.has_quota and node.counts(resource) else None
        limit = None if node.quota.limit is None else node.quota.limit.get(resource)
        if limit is not None:
            most = limit - node.held.get(resource, 0)
            left = most if left is None or most < left else left
        return left if left is None or left > 0 else 0

    def room(self, queue_id: int, resource: str) -> Room | None:
        """As `available`, with what bounds it: the tightest, and its own before that of others."""
        node = self.queues[queue_id]
        room = self._room(node, resource) if node.has_quota and node.counts(resource) else None
        limit = None if node.quota.limit is None else node.quota.limit.get(resource)
        if limit is not None:
            left = limit - node.held.get(resource, 0)
            if room is None or left <= room.amount:
                room = Room(left, Code.QUOTA_EXCEEDED, None, limit)
        return room if room is None or room.amount >= 0 else room._replace(amount=0)

    def room_in(self, cohort: QuotaNode, resource: str) -> Room:
        """How much more the members of the cohort may take together, of what they do not keep to themselves;
        less than nothing where too much is held."""
        key, revision = (cohort.id, resource), cohort.root.revision
        known = self._rooms.get(key)
        if known is None or known[0] != revision:
            room = self._room(cohort, resource)._replace(of=cohort.id)
            known = self._rooms[key] = revision, room
        return known[1]

    def left_in(self, cohort: QuotaNode, resource: str) -> int:
        """The amount of `room_in`."""
        return _left(cohort, resource)

    def reach(self, queue_id: int, resource: str) -> Reach | None:
        """None if the queue's cohort does not bound it."""
        node = self.queues[queue_id]
        if node.parent is None or not node.counts(resource):
            return None
        own, most = max(0, node.guaranteed.get(resource, 0) - node.usage.get(resource, 0)), inf
        if resource in node.quota.borrowing:
            most = most_borrowed(node, resource, node.usage.get(resource, 0))
        limit = None if node.quota.limit is None else node.quota.limit.get(resource)
        if limit is not None:
            most = min(most, limit - node.held.get(resource, 0) - own)
        return Reach(own, most)

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

    def borrowers(self) -> Mapping[int, Sequence[int]]:
        """By root cohort, the queues of its tree that hold more than their own nominal quota of something."""
        found: dict[int, list[int]] = {}
        for queue_id, node in self.queues.items():
            known = self._are_above.get(queue_id)
            if known is None or known[0] != node.revision:
                is_above = any(self.excess(queue_id, resource) for resource in node.held)
                known = self._are_above[queue_id] = node.revision, is_above
            if known[1] and not node.root.is_queue:
                found.setdefault(node.root.id, []).append(queue_id)
        return found

    def share(self, queue_id: int) -> float:
        """Weighted dominant share among what has the same parent; infinite for weight 0."""
        return self.share_of(self.queues[queue_id])

    def share_of(self, node: QuotaNode) -> float:
        known = self._shares.get(node)
        if known is None or known[0] != node.revision:
            known = self._shares[node] = node.revision, shares.share_of(node, self.capacity)
        return known[1]

    def _room(self, node: QuotaNode, resource: str) -> Room:
        subtree, usage = node.subtree.get(resource, 0), node.usage.get(resource, 0)
        if node.parent is None:
            code = Code.QUOTA_EXCEEDED if node.is_queue else Code.LENDING_LIMIT
            return Room(subtree - usage, code, None if node.is_queue else node.id, subtree)
        room = self.room_in(node.parent, resource)
        borrowing = node.quota.borrowing.get(resource)
        if borrowing is not None:
            most = most_borrowed(node, resource, usage)
            if most <= room.amount:
                cohort_id = None if node.is_queue else node.id
                room = Room(most, Code.BORROWING_LIMIT, cohort_id, subtree + borrowing)
        own = node.guaranteed.get(resource, 0) - usage
        return Room(own + room.amount, *room[1:4]) if own > 0 else room

    def ranks(self) -> dict[int, int]:
        """Queue to its number in the order of shares, 1 for the first: down the tree, whatever waits."""
        roots = [node for node in (*self.queues.values(), *self.cohorts.values()) if node.parent is None]
        order = shares.in_order_of_shares(roots, self.capacity)
        return {queue_id: number for number, queue_id in enumerate(order, start=1)}

    def shares(self, claimant: int, victim: int) -> Shares:
        """Shares of two queues where they part: of the nodes above them that have the same parent."""
        one, other = shares.where_they_part(self.queues[claimant], self.queues[victim])
        return Shares(claimant=self.share_of(one), victim=self.share_of(other))


def _add(node: QuotaNode, resource: str, amount: int) -> None:
    """Charge a queue, or refund it if the amount is negative, and all above it."""
    if not node.counts(resource):
        node.held[resource] = node.held.get(resource, 0) + amount
        return
    taken = amount
    for each in node.line:
        each.held[resource] = each.held.get(resource, 0) + amount
        before, own = each.usage.get(resource, 0), each.guaranteed.get(resource, 0)
        after = each.usage[resource] = before + taken
        # What it has of its own takes nothing from its parent.
        taken = max(0, after - own) - max(0, before - own)


def _left(node: QuotaNode, resource: str) -> int:
    """The amount of `QuotaTree._room`, which is asked for most."""
    usage = node.usage.get(resource, 0)
    if node.parent is None:
        return node.subtree.get(resource, 0) - usage
    left = _left(node.parent, resource)
    if resource in node.quota.borrowing:
        left = min(left, most_borrowed(node, resource, usage))
    own = node.guaranteed.get(resource, 0) - usage
    return own + left if own > 0 else left


def most_borrowed(node: QuotaNode, resource: str, usage: int) -> int:
    """How much of what its parent has left it may take, with what it lent to others. `usage`: that of the
    node."""
    subtree, guaranteed = node.subtree.get(resource, 0), node.guaranteed.get(resource, 0)
    borrowed = max(0, usage - guaranteed)
    return subtree - guaranteed - borrowed + node.quota.borrowing[resource]


def _potential(node: QuotaNode, resource: str) -> int:
    subtree = node.subtree.get(resource, 0)
    if node.parent is None:
        return subtree
    most = node.guaranteed.get(resource, 0) + _potential(node.parent, resource)
    borrowing = node.quota.borrowing.get(resource)
    return most if borrowing is None else min(most, subtree + borrowing)
