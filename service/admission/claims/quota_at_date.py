"""How much others may take of a resource if a claimant is to have its quota when its places are free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from service.admission.claims.usable import is_over_by
from service.admission.fit import Fitter
from service.admission.preemption.usages import usage_at
from service.admission.quota.future_room import room_with
from service.admission.quota.nodes import QuotaNode
from service.admission.resident import World
from service.domain.claim import Claim

#: By resource and queue.
_Changes = dict[str, dict[int, int]]
#: More than any queue may hold.
_BEYOND_ALL = 1 << 62


class Bound(NamedTuple):
    """By one claim in one resource. Whoever takes no more than `slack` leaves enough even now. `left`: by
    queue, the most that leaves enough at the date, None for no bound, as far as it was asked."""

    claim: Claim
    resource: str
    slack: int
    earlier: Sequence[Claim]
    left: dict[int, int | None]


class Bounds(NamedTuple):
    """`slacks`: the least of each resource."""

    each: tuple[Bound, ...]
    slacks: Mapping[str, int]


class QuotaAtDate:
    """Of one cycle, as its quota is when it is asked. What is held by units that are gone by a claim's date
    counts as free for it, and nothing is kept for a claimant that could not start then anyway."""

    def __init__(self, world: World, now: datetime, *, fitter: Fitter) -> None:
        self._world = world
        self._now = now
        self._fitter = fitter
        self._roots: dict[int, QuotaNode] = {}
        self._needs: dict[int, tuple[Claim, Mapping[str, int]]] = {}
        #: By tree and date: how many admissions are counted, and by resource what queues hold less then.
        self._given: dict[tuple[QuotaNode, datetime | None], tuple[int, _Changes]] = {}
        #: By claimants, with what their tree held when they were found.
        self._bounds: dict[tuple[int, ...], tuple[int, Bounds]] = {}

    def forget(self) -> None:
        """Claims have changed."""
        self._bounds.clear()

    def bounds(self, root: QuotaNode, claims: Sequence[Claim]) -> Bounds:
        """What has to be left in their tree to each of these, which are in the order of their dates: once
        those before it have started."""
        key = tuple(claim.unit_id for claim in claims)
        known = self._bounds.get(key)
        if known is None or known[0] != root.revision:
            known = self._bounds[key] = root.revision, self._find_bounds(claims)
        return known[1]

    def left(self, queue_id: int, bound: Bound) -> int | None:
        """How much rows of the queue may take at most."""
        if queue_id not in bound.left:
            bound.left[queue_id] = self._find_left(queue_id, bound)
        return bound.left[queue_id]

    def root(self, queue_id: int) -> QuotaNode:
        if queue_id not in self._roots:
            *_, self._roots[queue_id] = self._world.quota.queues[queue_id].path()
        return self._roots[queue_id]

    def _find_bounds(self, claims: Sequence[Claim]) -> Bounds:
        found: list[Bound] = []
        needed: dict[str, int] = {}
        slacks: dict[str, int] = {}
        for position, claim in enumerate(claims):
            claimant = self._world.pending[claim.unit_id]
            for resource, need in self._need(claim).items():
                needed[resource] = needed.get(resource, 0) + need
                room = self._fitter.quota.headroom(claimant.queue_id, resource) if need else None
                if room is not None:
                    slack = max(0, room - needed[resource]) if claimant.is_preemptible else 0
                    slacks[resource] = min(slack, slacks.get(resource, slack))
                    found.append(Bound(claim, resource, slack, claims[:position], {}))
        return Bounds(tuple(found), slacks)

    def _find_left(self, queue_id: int, bound: Bound) -> int | None:
        """What is left falls by what is taken, or not at all as long as that is nobody else's."""
        claim, need = bound.claim, self._need(bound.claim)[bound.resource]
        room, beyond = self._room(queue_id, bound, 0), self._room(queue_id, bound, _BEYOND_ALL)
        if room is None or beyond is None or room < need or beyond >= need:
            return None
        left = beyond + _BEYOND_ALL - need
        if queue_id == self._world.pending[claim.unit_id].queue_id:
            return left
        return max(left, self._own_room(queue_id, bound.resource))

    def _room(self, queue_id: int, bound: Bound, taken: int) -> int | None:
        """What the claimant may take at its date, if the queue took so much and those before it have
        started."""
        claimant, tree = self._world.pending[bound.claim.unit_id], self._world.quota
        changes = dict(self._given_back(bound.claim).get(bound.resource, {}))
        for other in bound.earlier:
            if self._holds_at(bound.claim.due_at, other):
                other_id = self._world.pending[other.unit_id].queue_id
                changes[other_id] = changes.get(other_id, 0) + self._need(other).get(bound.resource, 0)
        changes[queue_id] = changes.get(queue_id, 0) + taken
        room = room_with(tree, claimant.queue_id, bound.resource, changes)
        node = tree.queues[claimant.queue_id]
        if not claimant.is_preemptible and node.parent is not None and node.counts(bound.resource):
            held = node.held.get(bound.resource, 0) + changes.get(claimant.queue_id, 0)
            own = node.nominal.get(bound.resource, 0) - held
            room = own if room is None else min(room, own)
        return room

    def _own_room(self, queue_id: int, resource: str) -> int:
        """What is left of its own, which it takes before others borrow."""
        node = self._world.quota.queues[queue_id]
        return max(0, node.subtree.get(resource, 0) - node.usage.get(resource, 0))

    def _holds_at(self, due_at: datetime | None, claim: Claim) -> bool:
        """Whether a claimant that starts at its own date is there then."""
        claimant = self._world.pending[claim.unit_id]
        return claim.due_at is None or not is_over_by(claimant, claim.due_at, due_at)

    def _given_back(self, claim: Claim) -> _Changes:
        """What queues of the tree hold less when the claim is due."""
        root, due_at = self.root(self._world.pending[claim.unit_id].queue_id), claim.due_at
        if (root, due_at) not in self._given:
            self._given[root, due_at] = 0, self._ends_by(root, due_at) if due_at is not None else {}
        seen, changes = self._given[root, due_at]
        for admission in self._fitter.admissions[seen:]:
            row, queue_id = self._world.pending[admission.from_unit_id], admission.queue_id
            is_near = queue_id in self._world.quota.queues and self.root(queue_id) is root
            if is_near and is_over_by(row, self._now, due_at):
                _give_back(changes, queue_id, admission.usage)
        self._given[root, due_at] = len(self._fitter.admissions), changes
        return changes

    def _ends_by(self, root: QuotaNode, due_at: datetime) -> _Changes:
        changes: _Changes = {}
        given_back, running_in = self._world.holders.given_back, self._world.running_in
        for queue_id in self._world.quota.queues:
            if self.root(queue_id) is root:
                units = running_in.get(queue_id, {}).values()
                _give_back(changes, queue_id, given_back.by(queue_id, due_at, units))
        return changes

    def _need(self, claim: Claim) -> Mapping[str, int]:
        known = self._needs.get(claim.unit_id)
        if known is None or known[0] is not claim:
            shape_id = self._world.pending[claim.unit_id].shape_id
            known = self._needs[claim.unit_id] = claim, usage_at(self._world, shape_id, claim.places)
        return known[1]


def _give_back(changes: _Changes, queue_id: int, usage: Mapping[str, int]) -> None:
    for resource, amount in usage.items():
        by_queue = changes.setdefault(resource, {})
        by_queue[queue_id] = by_queue.get(queue_id, 0) - amount
