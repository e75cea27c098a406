"""For which blocked heads running units give way, beside what is kept for others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from service.admission.claims.book import ClaimBook
from service.admission.fit import Fitter
from service.admission.policy import Policy
from service.admission.preemption.preempt import Preemption, Preemptor
from service.admission.reservation.head_claims import HeadClaims
from service.admission.waiting.guard_line import waits_since
from service.admission.world import PendingUnit
from service.domain.claim import Claim


class GivingWay:
    """Of one cycle. `changes` counts for whom nobody was found."""

    def __init__(
        self,
        now: datetime,
        *,
        policy: Policy,
        fitter: Fitter,
        claims: ClaimBook,
        heads: HeadClaims,
        preemptor: Preemptor,
    ) -> None:
        self._now = now
        self._reclaim_delay_seconds = policy.reclaim_delay_seconds
        self._fitter = fitter
        self._claims = claims
        self._heads = heads
        self._preemptor = preemptor
        #: For whom nobody gives way, and how often claims had changed when that was found: a cycle frees
        #: nothing else.
        self._refused: dict[tuple[object, ...], int] = {}

    @property
    def changes(self) -> int:
        return len(self._refused)

    def may_be_for_any_of(self, queue_id: int) -> bool:
        return self._preemptor.wants_any_of(queue_id)

    def may_be_among(self, queue_ids: Collection[int]) -> set[int]:
        """The same for many queues at once."""
        return {each for each in queue_ids if self._preemptor.wants_any_of(each)}

    def may_be_for(self, row: PendingUnit) -> bool:
        """Whether others might give way to the row."""
        if not self._preemptor.may_have(row):
            return False
        behind = self._heads.behind(row)
        key = self._standing(row, behind)
        if self._refused.get(key) == self._claims.changes:
            return False
        lent = self._claims.kept_of(row.id, *(claim.unit_id for claim in behind))
        is_missed = self._fitter.has_missed(row.shape_id)
        may = self._preemptor.may_plan(row, lent=lent, is_missed=is_missed)
        if not may:
            self._refused[key] = self._claims.changes
        return may

    def plan(self, row: PendingUnit, behind: Sequence[Claim]) -> Preemption | None:
        """Beside the claims of others, but on those `behind` it."""
        if not self.may_be_for(row):
            return None
        besides = [row.id, *(claim.unit_id for claim in behind)]
        nodes = self._preemptor.nodes_of(row, self._claims.kept_of(*besides))
        with self._claims.occupied(nodes, besides=besides):
            preemption = self._preemptor.plan(row)
        if preemption is None:
            self._refused[self._standing(row, behind)] = self._claims.changes
        return preemption

    def _standing(self, row: PendingUnit, behind: Sequence[Claim]) -> tuple[object, ...]:
        """What decides whether others give way to the row: its equals are told the same."""
        waited = (self._now - waits_since(row)).total_seconds()
        return (
            (row.queue_id, row.shape_id, row.priority),
            (row.is_preemptible, row.has_never_run, waited < self._reclaim_delay_seconds),
            (row.id if self._claims.find(row.id) else None, *(claim.unit_id for claim in behind)),
        )
