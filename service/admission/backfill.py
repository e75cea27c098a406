"""Who may use places that are kept for somebody else: whoever is gone before the claim's date, whoever
goes first by priority, and whoever the claimant may preempt."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from service.admission.backlog import ClassId
from service.admission.claims import ClaimBook
from service.admission.dating import Ends
from service.admission.fit import Fitted, Fitter
from service.admission.ordering import Head
from service.admission.precedence import Precedence, may_preempt
from service.admission.resident import World
from service.admission.world import PendingUnit, Queue
from service.domain.claim import Claim


class Backfill:
    """Fits rows of one cycle, first beside all claims, then on what is kept as far as they may. `overtaken`:
    claims on whose places somebody was put who goes first; they are to be dated anew."""

    def __init__(
        self,
        world: World,
        now: datetime,
        *,
        fitter: Fitter,
        claims: ClaimBook,
        ends: Ends,
        precedence: Precedence,
    ) -> None:
        self._world = world
        self._now = now
        self._fitter = fitter
        self._claims = claims
        self._ends = ends
        self._precedence = precedence
        #: What a shape was found not to fit on, whatever the quota: everything free, and these claims.
        self._misses: set[tuple[int, frozenset[int]]] = set()
        self.overtaken: list[int] = []
        self._wanted: dict[ClassId, tuple[int, bool]] = {}

    def fit(self, row: PendingUnit, head: Head) -> Fitted:
        """As `Fitter.fit`. The claim of a unit of which something is placed is over."""
        own = self._claims.find(row.id)
        if own is None:
            fitted = self._try(row, head, frozenset())
        else:
            fitted = self._try(row, head, frozenset({row.id}))
        if fitted.left and fitted.placed < head.most:
            usable = self._usable(row)
            if usable:
                more = self._try(row, head, usable, already=fitted.placed)
                fitted = Fitted(fitted.placed + more.placed, more.left)
        if fitted.placed:
            self._claims.end(row.id)
        return fitted

    # ------------------------------------------------------------------ which classes are asked
    def wants_any_of(self, queue_id: int) -> bool:  # noqa: ARG002 (places are kept from all queues)
        """Whether rows that find no place beside what is kept may use some of it."""
        return any(self._claims.taken.values())

    def wants(self, class_id: ClassId) -> bool:
        if not any(self._claims.taken.values()) or class_id[1] in self._fitter.hopeless:
            return False
        known = self._wanted.get(class_id)
        if known is None or known[0] != self._claims.changes:
            rows = (self._world.pending[key[4]] for key in self._world.backlog.classes[class_id])
            known = self._wanted[class_id] = self._claims.changes, any(map(self.may_use_any, rows))
        return known[1]

    def may_use_any(self, row: PendingUnit) -> bool:
        """Whether the row could use what others of its class could not."""
        return self._claims.find(row.id) is not None or bool(self._usable(row))

    def _usable(self, row: PendingUnit) -> frozenset[int]:
        if not self._claims.taken:
            return frozenset()
        queue = self._world.configuration.queues[row.queue_id]
        return frozenset(
            unit_id
            for unit_id, taken in self._claims.taken.items()
            if taken
            and (claim := self._claims.find(unit_id)) is not None
            and (unit_id == row.id or self._may_use(row, claim, queue))
        )

    def _may_use(self, row: PendingUnit, claim: Claim, queue: Queue) -> bool:
        return (
            is_over_by(row, self._now, claim.due_at)
            or self._precedence.goes_before(row, claim)
            or may_preempt(self._world.pending[claim.unit_id], row, queue)
        )

    def _try(self, row: PendingUnit, head: Head, usable: frozenset[int], already: int = 0) -> Fitted:
        fitter, capacity = self._fitter, self._world.capacity
        before = len(fitter.admissions)
        if not any(self._claims.taken.get(unit_id) for unit_id in usable):
            fitted = fitter.fit(row, most=head.most - already, is_within=head.is_within)
        else:
            if (row.shape_id, usable) in self._misses:
                return Fitted(0, 1)
            mark = capacity.lend(taken for unit_id in sorted(usable) for taken in self._claims.taken[unit_id])
            fitted = fitter.fit(row, most=head.most - already, is_within=head.is_within, is_lent=True)
            if not fitted.placed:
                capacity.undo(mark)
                if fitter.has_missed_lent:
                    self._misses.add((row.shape_id, usable))
                return fitted
            admissions = fitter.admissions[before:]
            self._claims.keep_rest(sorted(usable), admissions)
            self._note_overtaken(row, usable, {place for a in admissions for place in a.places})
        for admission in fitter.admissions[before:]:
            self._ends.add(row, admission)
        return fitted

    def _note_overtaken(self, row: PendingUnit, usable: Collection[int], places: Collection[object]) -> None:
        """Claims on whose devices the row sits now, though it is not gone by their date."""
        held = {(p.node_id, device) for p in places for device in p.devices}  # type: ignore[attr-defined]
        for unit_id in sorted(usable):
            claim = self._claims.find(unit_id)
            if claim is None or unit_id == row.id or is_over_by(row, self._now, claim.due_at):
                continue
            if any((p.node_id, device) in held for p in claim.places for device in p.devices):
                self.overtaken.append(unit_id)


def is_over_by(row: PendingUnit, now: datetime, due_at: datetime | None) -> bool:
    """Whether the row, admitted now, is gone by then: by what is enforced. A row without a time limit never
    ends; a claim without a date lets nobody by."""
    if due_at is None or row.time_limit_seconds is None:
        return False
    return now + timedelta(seconds=row.time_limit_seconds + row.grace_seconds) <= due_at
