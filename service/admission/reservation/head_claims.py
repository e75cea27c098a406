"""Claims of heads in one tree of cohorts: how many there are of each flavor, and which a row goes before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from service.admission.claims.book import ClaimBook
from service.admission.nodes.query import NO_MODEL, ShapeQuery
from service.admission.order.precedence import Precedence
from service.admission.resident import World
from service.admission.world import PendingUnit
from service.domain.claim import Claim, ClaimCause
from service.domain.queue import Order

#: A cohort that has no parent, or a queue without one.
Root = tuple[str, int]
#: The same and a flavor: where so many heads have a claim.
Slot = tuple[str, int, str]


class HeadClaims:
    """Of one cycle. `depth`: for so many heads of a tree and flavor claims are kept; None: for all. Whoever
    makes and ends claims has them counted."""

    def __init__(self, world: World, *, claims: ClaimBook, precedence: Precedence, depth: int | None) -> None:
        self._world = world
        self._claims = claims
        self._precedence = precedence
        self._depth = depth
        self._roots: dict[int, Root] = {}
        self._near: tuple[int, dict[Root, list[Claim]]] = -1, {}
        self._lowest: dict[Root, dict[int, int]] = {}
        self._used: Counter[Slot] = Counter()
        for claim in claims:
            self.count(claim, 1)

    def has_slot(self, queue_id: int, query: ShapeQuery) -> bool:
        root = self.root(queue_id)
        return any(self.is_open((*root, model)) for model in query.models or (NO_MODEL,))

    def is_open(self, slot: Slot) -> bool:
        return self._depth is None or self._used[slot] < self._depth

    def count(self, claim: Claim, by: int) -> None:
        if claim.cause is ClaimCause.HEAD:
            for slot in self.slots(claim):
                self._used[slot] += by

    def slots(self, claim: Claim) -> set[Slot]:
        root = self.root(self._world.pending[claim.unit_id].queue_id)
        nodes = self._world.configuration.nodes
        models = {
            device.model
            for place in claim.places
            if place.node_id in nodes
            for device in nodes[place.node_id].devices
            if device.index in place.devices
        }
        return {(*root, model) for model in models or {NO_MODEL}}

    def behind(self, row: PendingUnit) -> list[Claim]:
        """Those that the row goes before, the oldest first."""
        near = self.near(row.queue_id)
        if not near or self._is_behind_all(row):
            return []
        return [claim for claim in near if self._precedence.goes_before(row, claim)]

    def _is_behind_all(self, row: PendingUnit) -> bool:
        """Where only its own queue has claims, priority decides, but in a strict one."""
        lowest = self._lowest.get(self.root(row.queue_id), {})
        is_strict = self._world.configuration.queues[row.queue_id].order is Order.STRICT
        is_alone = len(lowest) == 1 and row.queue_id in lowest
        return is_alone and not is_strict and row.priority <= lowest[row.queue_id]

    def near(self, queue_id: int) -> Sequence[Claim]:
        """Those of the queue's tree, the oldest first."""
        if self._near[0] != self._claims.changes:
            by_root: dict[Root, list[Claim]] = {}
            for claim in self._claims:
                if claim.cause is ClaimCause.HEAD:
                    root = self.root(self._world.pending[claim.unit_id].queue_id)
                    by_root.setdefault(root, []).append(claim)
            self._near = self._claims.changes, by_root
            self._lowest = {root: self._lowest_of(claims) for root, claims in by_root.items()}
        return self._near[1].get(self.root(queue_id), ())

    def _lowest_of(self, claims: Sequence[Claim]) -> dict[int, int]:
        """By queue the lowest priority of a claimant."""
        lowest: dict[int, int] = {}
        for claim in claims:
            row = self._world.pending[claim.unit_id]
            lowest[row.queue_id] = min(row.priority, lowest.get(row.queue_id, row.priority))
        return lowest

    def root(self, queue_id: int) -> Root:
        if queue_id not in self._roots:
            cohorts = self._world.configuration.cohorts
            root, above = ("queue", queue_id), self._world.configuration.queues[queue_id].cohort_id
            while above is not None:
                root, above = ("cohort", above), cohorts[above].parent_id
            self._roots[queue_id] = root
        return self._roots[queue_id]
