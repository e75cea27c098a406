"""Claims on whose places a row may sit: it is gone by their date, goes before them, or the claimant may take
its places back."""

from __future__ import annotations

from datetime import datetime, timedelta

from service.admission.claims.book import ClaimBook
from service.admission.order.precedence import Precedence, may_preempt
from service.admission.quota.nodes import QuotaNode
from service.admission.resident import World
from service.admission.world import PendingUnit
from service.domain.claim import Claim


class UsableClaims:
    """Of one cycle. Only claims in the row's own tree have to be looked at one by one: of all others the date
    alone decides, which rows that run equally long have in common."""

    def __init__(self, world: World, now: datetime, *, claims: ClaimBook, precedence: Precedence) -> None:
        self._world = world
        self._now = now
        self._claims = claims
        self._precedence = precedence
        self._changes = -1
        self._near: dict[QuotaNode, list[Claim]] = {}
        #: By how long rows run at most, in seconds.
        self._later: dict[int, frozenset[int]] = {}

    def of(self, row: PendingUnit) -> frozenset[int]:
        """By unit, those for which something is kept now."""
        if self._changes != self._claims.changes:
            self._sort()
        later = self._due_later(row)
        near = self._near.get(self._world.quota.queues[row.queue_id].root)
        if not near:
            return later
        more = [claim.unit_id for claim in near if claim.unit_id not in later and self._is_usable(row, claim)]
        return later.union(more) if more else later

    def _sort(self) -> None:
        """As claims are now."""
        self._changes = self._claims.changes
        self._near.clear()
        self._later.clear()
        for unit_id, taken in self._claims.taken.items():
            claim = self._claims.find(unit_id)
            if taken and claim is not None:
                root = self._world.quota.queues[self._world.pending[unit_id].queue_id].root
                self._near.setdefault(root, []).append(claim)

    def _due_later(self, row: PendingUnit) -> frozenset[int]:
        if row.time_limit_seconds is None:
            return frozenset()
        seconds = row.time_limit_seconds + row.grace_seconds
        known = self._later.get(seconds)
        if known is None:
            known = self._later[seconds] = frozenset(
                claim.unit_id
                for claims in self._near.values()
                for claim in claims
                if is_over_by(row, self._now, claim.due_at)
            )
        return known

    def _is_usable(self, row: PendingUnit, claim: Claim) -> bool:
        if claim.unit_id == row.id or self._precedence.goes_before(row, claim):
            return True
        queue = self._world.configuration.queues[row.queue_id]
        return may_preempt(self._world.pending[claim.unit_id], row, queue)


def is_over_by(row: PendingUnit, now: datetime, due_at: datetime | None) -> bool:
    """Whether the row, admitted now, is gone by then: by what is enforced. A row without a time limit never
    ends; a claim without a date lets nobody by."""
    if due_at is None or row.time_limit_seconds is None:
        return False
    return now + timedelta(seconds=row.time_limit_seconds + row.grace_seconds) <= due_at
