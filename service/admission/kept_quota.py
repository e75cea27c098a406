"""Quota that a claimant needs when its places are free: whoever comes behind it and is not gone by then takes
no more than the claimant leaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

from service.admission.backfill import is_over_by
from service.admission.backlog import ClassId
from service.admission.claims import ClaimBook
from service.admission.fit import Fitter
from service.admission.future_room import room_with
from service.admission.own_limits import exceeded
from service.admission.precedence import Precedence, may_preempt
from service.admission.query import NO_MODEL
from service.admission.quota_nodes import QuotaNode
from service.admission.resident import World
from service.admission.usages import usage_at
from service.admission.world import PendingUnit
from service.domain.claim import Claim, ClaimCause
from service.domain.resources import CPUS, MEMORY
from service.domain.shape import RoleShape


class Stopped(NamedTuple):
    """What kept a row from its start: so much is `left` of the resource beside what the claimant needs."""

    claim: Claim
    resource: str
    left: int


class KeptQuota:
    """Of one cycle. What is held by units that are gone by a claim's date counts as free for it, and nothing
    is kept for a claimant that could not start then anyway. `stopped`: by class, why rows of it were kept
    from their start, and `stopped_rows` which."""

    def __init__(
        self, world: World, now: datetime, *, fitter: Fitter, claims: ClaimBook, precedence: Precedence
    ) -> None:
        self._world = world
        self._now = now
        self._fitter = fitter
        self._claims = claims
        self._precedence = precedence
        self.stopped: dict[ClassId, Stopped] = {}
        self.stopped_rows: set[int] = set()
        #: Claims by the root of their tree of quotas, and how often claims had changed when that was found.
        self._in_tree: dict[QuotaNode, list[Claim]] = {}
        self._seen: int | None = None
        self._roots: dict[int, QuotaNode] = {}
        self._needs: dict[int, tuple[Claim, Mapping[str, int]]] = {}
        #: By claim, date and resource: how many admissions are counted, and what queues hold less then.
        self._given: dict[tuple[int, datetime | None, str], tuple[int, dict[int, int]]] = {}

    def rooms(self, row: PendingUnit, want: int) -> dict[str, int]:
        """How much the row may take of each resource that is kept from it, if it wants so many units."""
        rooms: dict[str, int] = {}
        tightest: Stopped | None = None
        claims = sorted(self._claims_before(row), key=_by_date)
        for position, claim in enumerate(claims):
            for resource, left in self._left(row, want, claim, claims[:position]):
                if left < rooms.get(resource, left + 1):
                    rooms[resource] = left
                if tightest is None or left < tightest.left:
                    tightest = Stopped(claim, resource, left)
        if tightest is not None and self._is_stopped(row, rooms):
            self.stopped.setdefault((row.queue_id, row.shape_id), tightest)
            self.stopped_rows.add(row.id)
        return rooms

    def _is_stopped(self, row: PendingUnit, rooms: Mapping[str, int]) -> bool:
        """Whether not all of it may start. Of a range that may choose among models: whether nothing may."""
        query = self._fitter.query(row.shape_id)
        has_choice = any(len(role.models) > 1 for role in query.roles)
        return bool(exceeded(query, rooms)) or not (query.shape.is_gang or has_choice)

    def may_let(self, row: PendingUnit) -> bool:
        """Whether the row might start where an equal of its class was stopped."""
        stopped = self.stopped.get((row.queue_id, row.shape_id))
        return stopped is not None and not self._is_before(stopped.claim, row)

    def _claims_before(self, row: PendingUnit) -> Iterator[Claim]:
        if not self._claims.by_unit or row.queue_id not in self._world.quota.queues:
            return
        if self._seen != self._claims.changes:
            self._seen, self._in_tree = self._claims.changes, self._by_tree()
        for claim in self._in_tree.get(self._root(row.queue_id), ()):
            if self._is_before(claim, row):
                yield claim

    def _by_tree(self) -> dict[QuotaNode, list[Claim]]:
        """The oldest first. What others give way for is charged already."""
        in_tree: dict[QuotaNode, list[Claim]] = {}
        for claim in self._claims:
            if claim.cause is not ClaimCause.PREEMPTION:
                root = self._root(self._world.pending[claim.unit_id].queue_id)
                in_tree.setdefault(root, []).append(claim)
        return in_tree

    def _root(self, queue_id: int) -> QuotaNode:
        if queue_id not in self._roots:
            *_, self._roots[queue_id] = self._world.quota.queues[queue_id].path()
        return self._roots[queue_id]

    def _is_before(self, claim: Claim, row: PendingUnit) -> bool:
        """Whether the row has to leave the claimant its quota."""
        claimant = self._world.pending[claim.unit_id]
        if row.id == claimant.id:
            return False
        if is_over_by(row, self._now, claim.due_at):
            return False
        if row.queue_id == claimant.queue_id and self._precedence.goes_before(row, claim):
            return False
        queue, own = self._world.configuration.queues[row.queue_id], self._claims.find(row.id)
        is_older = own is not None and (own.made_at, own.unit_id) < (claim.made_at, claim.unit_id)
        return not is_older and not may_preempt(claimant, row, queue)

    def _left(
        self, row: PendingUnit, want: int, claim: Claim, earlier: Sequence[Claim]
    ) -> Iterator[tuple[str, int]]:
        """Of resources of which the row could take more than the claimant leaves, once those with `earlier`
        dates have started."""
        queue_id = self._world.pending[claim.unit_id].queue_id
        for resource, most in self._most(row, want).items():
            need = self._need(claim).get(resource, 0)
            room = self._fitter.quota.headroom(queue_id, resource) if need and most else None
            needed = need + sum(self._need(each).get(resource, 0) for each in earlier)
            if room is None or (room >= needed + most and self._world.pending[claim.unit_id].is_preemptible):
                # There is enough for both even now.
                continue
            started = [each for each in earlier if self._holds_at(claim.due_at, each)]
            leaves = partial(self._leaves, claim, row, resource, started)
            if leaves(0) and not leaves(most):
                low, high = 0, most
                while high - low > 1:
                    middle = (low + high) // 2
                    is_left = leaves(middle)
                    low, high = (middle, high) if is_left else (low, middle)
                low = max(low, self._own_room(row.queue_id, resource) if row.queue_id != queue_id else 0)
                if low < most:
                    yield resource, low

    def _own_room(self, queue_id: int, resource: str) -> int:
        """What is left of its own, which it takes before others borrow."""
        node = self._world.quota.queues[queue_id]
        return max(0, node.subtree.get(resource, 0) - node.usage.get(resource, 0))

    def _holds_at(self, due_at: datetime | None, claim: Claim) -> bool:
        """Whether a claimant that starts at its own date is there then."""
        claimant = self._world.pending[claim.unit_id]
        return claim.due_at is None or not is_over_by(claimant, claim.due_at, due_at)

    def _leaves(
        self, claim: Claim, row: PendingUnit, resource: str, started: Sequence[Claim], taken: int
    ) -> bool:
        """Whether the claimant has quota at its date, if the row takes so much and these have started."""
        claimant, tree = self._world.pending[claim.unit_id], self._world.quota
        changes = dict(self._given_back(claim, resource))
        for other in started:
            other_id = self._world.pending[other.unit_id].queue_id
            changes[other_id] = changes.get(other_id, 0) + self._need(other).get(resource, 0)
        changes[row.queue_id] = changes.get(row.queue_id, 0) + taken
        room = room_with(tree, claimant.queue_id, resource, changes)
        node = tree.queues[claimant.queue_id]
        if not claimant.is_preemptible and node.parent is not None and node.counts(resource):
            held = node.held.get(resource, 0) + changes.get(claimant.queue_id, 0)
            own = node.nominal.get(resource, 0) - held
            room = own if room is None else min(room, own)
        return room is None or room >= self._need(claim)[resource]

    def _given_back(self, claim: Claim, resource: str) -> Mapping[int, int]:
        """By queue of the tree, what it holds less when the claim is due."""
        key = claim.unit_id, claim.due_at, resource
        if key not in self._given:
            self._given[key] = 0, self._ends_by(claim, resource)
        seen, changes = self._given[key]
        for admission in self._fitter.admissions[seen:]:
            row = self._world.pending[admission.from_unit_id]
            if is_over_by(row, self._now, claim.due_at) and admission.queue_id in self._world.quota.queues:
                taken = admission.usage.get(resource, 0)
                changes[admission.queue_id] = changes.get(admission.queue_id, 0) - taken
        self._given[key] = len(self._fitter.admissions), changes
        return changes

    def _ends_by(self, claim: Claim, resource: str) -> dict[int, int]:
        root = self._root(self._world.pending[claim.unit_id].queue_id)
        changes: dict[int, int] = {}
        for other in self._world.quota.queues if claim.due_at is not None else ():
            if self._root(other) is not root:
                continue
            for unit in self._world.running_in.get(other, {}).values():
                if unit.frees_at is not None and claim.due_at is not None and unit.frees_at <= claim.due_at:
                    changes[other] = changes.get(other, 0) - unit.usage.get(resource, 0)
        return changes

    def _need(self, claim: Claim) -> Mapping[str, int]:
        known = self._needs.get(claim.unit_id)
        if known is None or known[0] is not claim:
            shape_id = self._world.pending[claim.unit_id].shape_id
            known = self._needs[claim.unit_id] = claim, usage_at(self._world, shape_id, claim.places)
        return known[1]

    def _most(self, row: PendingUnit, want: int) -> dict[str, int]:
        """The most of each resource that the row could come to hold, whichever models it takes."""
        most: dict[str, int] = {}
        for role, each in zip(self._fitter.query(row.shape_id).roles, self._roles(row), strict=True):
            count = each.count if self._world.shapes[row.shape_id].is_gang else want
            for resource in (model for model in role.models if model != NO_MODEL):
                most[resource] = most.get(resource, 0) + count * each.requests.gpus
            most[CPUS] = most.get(CPUS, 0) + count * each.requests.cpus_milli
            most[MEMORY] = most.get(MEMORY, 0) + count * each.requests.memory_mib
        return most

    def _roles(self, row: PendingUnit) -> Sequence[RoleShape]:
        shape = self._world.shapes[row.shape_id]
        return [shape.roles[role.position] for role in self._fitter.query(row.shape_id).roles]


def _by_date(claim: Claim) -> tuple[bool, float, datetime, int]:
    """Those without a date last; of equals the oldest first."""
    at = claim.due_at
    return at is None, 0.0 if at is None else at.timestamp(), claim.made_at, claim.unit_id
