"""Quota that a claimant needs when its places are free: whoever comes behind it and is not gone by then takes
no more than the claimant leaves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from service.admission.claims.book import ClaimBook
from service.admission.claims.quota_at_date import QuotaAtDate
from service.admission.claims.usable import is_over_by
from service.admission.fit import Fitter
from service.admission.nodes.query import NO_MODEL
from service.admission.order.precedence import Precedence, may_preempt
from service.admission.quota.gates import Gate
from service.admission.quota.nodes import QuotaNode
from service.admission.quota.own_limits import exceeded
from service.admission.resident import World
from service.admission.waiting.backlog import ClassId, Kind
from service.admission.world import PendingUnit, RunningUnit
from service.domain.claim import Claim, ClaimCause
from service.domain.resources import CPUS, MEMORY


class Stopped(NamedTuple):
    """What keeps a row from its start: so much is `left` of the resource beside what the claimant needs."""

    claim: Claim
    resource: str
    left: int


class KeptQuota:
    """Of one cycle, as its claims and quota are when it is asked. `stopped_rows`: those that were kept from
    their start."""

    def __init__(
        self, world: World, now: datetime, *, fitter: Fitter, claims: ClaimBook, precedence: Precedence
    ) -> None:
        self._world = world
        self._now = now
        self._fitter = fitter
        self._claims = claims
        self._precedence = precedence
        self._quota = QuotaAtDate(world, now, fitter=fitter)
        #: By class, the first row that was kept from its start, and by whose claim.
        self._stopped: dict[ClassId, tuple[PendingUnit, Claim]] = {}
        self.stopped_rows: set[int] = set()
        #: Claims by the root of their tree of quotas, those before rows of a queue and kind, and classes of
        #: claimants, as claims are after so many changes.
        self._in_tree: dict[QuotaNode, tuple[Claim, ...]] = {}
        self._before_kinds: dict[tuple[int, Kind], tuple[Claim, ...]] = {}
        self._claiming: set[ClassId] = set()
        #: By queue, those for whom others give way and who may use its nominal quota alone.
        self._bound: dict[int, list[Claim]] = {}
        self._seen: int | None = None
        #: By the root of a tree, what all of its claims leave, as it was at a revision.
        self._slacks: dict[QuotaNode, tuple[int, Mapping[str, int]]] = {}
        #: By queue, the classes that are stopped, and on what that rests.
        self._stopped_in: dict[int, tuple[tuple[Gate, int, int, int], frozenset[int]]] = {}
        #: By shape and how many units are wanted, the most of each resource.
        self._mosts: dict[tuple[int, int], dict[str, int]] = {}

    # ------------------------------------------------------------------ row by row
    def rooms(self, row: PendingUnit, want: int = 1) -> dict[str, int]:
        """How much the row may take of each resource that is kept from it, if it wants so many units."""
        if not self._may_bind(row, want):
            return {}
        claims = self._claims_before(row)
        return rooms_of(self._binding(row, want, claims)) if claims or self._bound else {}

    def _may_bind(self, row: PendingUnit, want: int) -> bool:
        """Whether the row needs more than all claims of its tree together leave: those before it leave no
        less."""
        claims = self._in_tree_of(row.queue_id)
        if self._bound.get(row.queue_id):
            return True
        if not claims:
            return False
        root = self._quota.root(row.queue_id)
        known = self._slacks.get(root)
        if known is None or known[0] != root.revision:
            known = self._slacks[root] = root.revision, self._quota.bounds(root, claims).slacks
        most = self._most(row, want)
        return any(most.get(resource, 0) > slack for resource, slack in known[1].items())

    def keep(self, row: PendingUnit, want: int) -> dict[str, int]:
        """The same for a row that is to start now. Notes whom it stops."""
        rooms = self.rooms(row, want)
        if rooms and self._is_stopped(row, rooms):
            binding = list(self._binding(row, want, self._claims_before(row)))
            tightest = min(binding, key=_left_of)
            self._stopped.setdefault((row.queue_id, row.shape_id), (row, tightest.claim))
            self.stopped_rows.add(row.id)
        return rooms

    def stops(self, row: PendingUnit) -> bool:
        """Whether not one unit of the row may start."""
        rooms = self.rooms(row)
        return bool(rooms) and bool(exceeded(self._fitter.query(row.shape_id), rooms))

    def may_let(self, row: PendingUnit) -> bool:
        """Whether the row might start where an equal of its class was stopped."""
        _, claim = self._stopped.get((row.queue_id, row.shape_id), (None, None))
        return claim is not None and not self._is_before(claim, row)

    def left_to_grow(self, unit: RunningUnit) -> tuple[Stopped, ...]:
        """What claims that are due before the unit ends leave to its growth."""
        claims = tuple(claim for claim in self._in_tree_of(unit.queue_id) if not _is_gone_by(unit, claim))
        return tuple(self._binding(unit, 1, claims)) if claims else ()

    def still_stopped(self) -> dict[ClassId, Stopped]:
        """Classes of which rows were kept from their start, and by what, if that leaves too little for one
        unit now."""
        found: dict[ClassId, Stopped] = {}
        for class_id, (row, _) in self._stopped.items():
            most = self._fitter.query(row.shape_id).most
            binding = self._binding(row, 1, self._claims_before(row))
            short = [each for each in binding if each.left < most.get(each.resource, 0)]
            if short:
                found[class_id] = min(short, key=_left_of)
        return found

    def _binding(
        self, row: PendingUnit | RunningUnit, want: int, claims: tuple[Claim, ...]
    ) -> Iterator[Stopped]:
        """Where the row could take more than is left."""
        yield from self._beside_bound(row, want)
        most, bounds = self._most(row, want), self._quota.bounds(self._quota.root(row.queue_id), claims)
        if all(most.get(resource, 0) <= slack for resource, slack in bounds.slacks.items()):
            return
        for bound in bounds.each:
            need = most.get(bound.resource, 0)
            if need > bound.slack:
                left = self._quota.left(row.queue_id, bound)
                if left is not None and left < need:
                    yield Stopped(bound.claim, bound.resource, max(0, left))

    def _beside_bound(self, row: PendingUnit | RunningUnit, want: int) -> Iterator[Stopped]:
        """Who borrows in a queue takes its nominal quota from a claimant that may use nothing else: others
        would give way to it in vain, again and again. What it needs itself is charged already."""
        node = self._world.quota.queues[row.queue_id]
        for claim in self._bound.get(row.queue_id, ()):
            if claim.unit_id == row.id:
                continue
            most = self._most(row, want)
            for resource in self._most(self._world.pending[claim.unit_id], 1):
                left = max(0, node.subtree.get(resource, 0) - node.usage.get(resource, 0))
                if node.counts(resource) and left < most.get(resource, 0):
                    yield Stopped(claim, resource, left)

    def _is_stopped(self, row: PendingUnit, rooms: Mapping[str, int]) -> bool:
        """Whether not all of it may start. Of a range that may choose among models: whether nothing may."""
        query = self._fitter.query(row.shape_id)
        return bool(exceeded(query, rooms)) or not (query.shape.is_gang or query.has_choice)

    # ------------------------------------------------------------------ class by class
    def stopped_classes(self, queue_id: int, gate: Gate) -> frozenset[int]:
        """Shapes of which there is quota for the queue, by its gate, and no row may start beside what is
        kept."""
        claims = self._in_tree_of(queue_id)
        if not claims:
            return frozenset()
        root, known = self._quota.root(queue_id), self._stopped_in.get(queue_id)
        stamp = gate, gate.answers, self._claims.changes, root.revision
        if known is None or known[0] != stamp:
            large = gate.needing_more(self._quota.bounds(root, claims).slacks) & gate.open
            stopped = frozenset(shape_id for shape_id in large if self.stops_class((queue_id, shape_id)))
            known = self._stopped_in[queue_id] = stamp, stopped
        return known[1]

    def stops_class(self, class_id: ClassId) -> bool:
        """Whether no row of it may start. A claimant among them may, by its own claim."""
        if not self._in_tree_of(class_id[0]):
            return False
        kinds = self._world.backlog.kinds_in[class_id]
        return class_id not in self._claiming and all(self._stops_kind(class_id, kind) for kind in kinds)

    def _stops_kind(self, class_id: ClassId, kind: Kind) -> bool:
        key, row = (class_id[0], kind), self._one_of(class_id)
        claims = self._before_kinds.get(key)
        if claims is None:
            claims = self._before_kinds[key] = self._claims_before(replace(row, id=0, **kind._asdict()))
        rooms = rooms_of(self._binding(row, 1, claims)) if claims else {}
        return bool(rooms) and bool(exceeded(self._fitter.query(row.shape_id), rooms))

    def _one_of(self, class_id: ClassId) -> PendingUnit:
        return self._world.pending[self._world.backlog.classes[class_id][-1][4]]

    # ------------------------------------------------------------------ who goes first
    def _claims_before(self, row: PendingUnit) -> tuple[Claim, ...]:
        """By their dates."""
        return tuple(claim for claim in self._in_tree_of(row.queue_id) if self._is_before(claim, row))

    def _in_tree_of(self, queue_id: int) -> tuple[Claim, ...]:
        if not self._claims.by_unit or queue_id not in self._world.quota.queues:
            return ()
        if self._seen != self._claims.changes:
            self._seen, self._in_tree = self._claims.changes, self._by_tree()
            claimants = (self._world.pending[unit_id] for unit_id in self._claims.by_unit)
            self._claiming = {(row.queue_id, row.shape_id) for row in claimants}
            self._before_kinds.clear()
            self._slacks.clear()
            self._bound = self._find_bound()
            self._quota.forget()
        return self._in_tree.get(self._quota.root(queue_id), ())

    def _by_tree(self) -> dict[QuotaNode, tuple[Claim, ...]]:
        """By their dates. What others give way for is charged already."""
        in_tree: dict[QuotaNode, list[Claim]] = {}
        for claim in self._claims:
            if claim.cause is not ClaimCause.PREEMPTION:
                root = self._quota.root(self._world.pending[claim.unit_id].queue_id)
                in_tree.setdefault(root, []).append(claim)
        return {root: tuple(sorted(claims, key=_by_date)) for root, claims in in_tree.items()}

    def _find_bound(self) -> dict[int, list[Claim]]:
        bound: dict[int, list[Claim]] = {}
        for claim in self._claims:
            claimant = self._world.pending[claim.unit_id]
            if claim.cause is ClaimCause.PREEMPTION and self._fitter.may_not_borrow(claimant):
                bound.setdefault(claimant.queue_id, []).append(claim)
        return bound

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

    # ------------------------------------------------------------------ what rows need
    def _most(self, row: PendingUnit | RunningUnit, want: int) -> dict[str, int]:
        """The most of each resource that the row could come to hold, whichever models it takes."""
        most = self._mosts.get((row.shape_id, want))
        if most is None:
            most = self._mosts[row.shape_id, want] = self._find_most(row.shape_id, want)
        return most

    def _find_most(self, shape_id: int, want: int) -> dict[str, int]:
        most: dict[str, int] = {}
        shape, query = self._world.shapes[shape_id], self._fitter.query(shape_id)
        for role in query.roles:
            each = shape.roles[role.position]
            count = each.count if shape.is_gang else want
            for resource in (model for model in role.models if model != NO_MODEL):
                most[resource] = most.get(resource, 0) + count * each.requests.gpus
            most[CPUS] = most.get(CPUS, 0) + count * each.requests.cpus_milli
            most[MEMORY] = most.get(MEMORY, 0) + count * each.requests.memory_mib
        return most


def rooms_of(stopped: Iterable[Stopped]) -> dict[str, int]:
    """How much is left of each resource beside what all of these need."""
    rooms: dict[str, int] = {}
    for each in stopped:
        rooms[each.resource] = min(each.left, rooms.get(each.resource, each.left))
    return rooms


def _left_of(stopped: Stopped) -> int:
    return stopped.left


def _is_gone_by(unit: RunningUnit, claim: Claim) -> bool:
    return unit.frees_at is not None and claim.due_at is not None and unit.frees_at <= claim.due_at


def _by_date(claim: Claim) -> tuple[bool, float, datetime, int]:
    """Those without a date last; of equals the oldest first."""
    at = claim.due_at
    return at is None, 0.0 if at is None else at.timestamp(), claim.made_at, claim.unit_id
