"""Who may use places that are kept for somebody else: whoever is gone before the claim's date, whoever
goes first by priority, and whoever the claimant may preempt."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import datetime

from service.admission.claims.book import ClaimBook
from service.admission.claims.dating import Ends
from service.admission.claims.lent import LentSeats
from service.admission.claims.usable import UsableClaims, is_over_by
from service.admission.fit import Fitted, Fitter
from service.admission.order.ordering import Head
from service.admission.order.precedence import Precedence
from service.admission.resident import World
from service.admission.waiting.backlog import ClassId, Kind, kind_of
from service.admission.world import PendingUnit


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
        self._usable = UsableClaims(world, now, claims=claims, precedence=precedence)
        #: What a shape was found not to fit on, whatever the quota: everything free, and these claims.
        self._misses: set[tuple[int, frozenset[int]]] = set()
        self._lent = LentSeats(world.capacity, claims)
        self._kept: tuple[int, frozenset[int]] = -1, frozenset()
        self.overtaken: list[int] = []
        #: Claims that rows of a class and kind may use, and how often claims had changed when that was found.
        self._usable_by: dict[tuple[ClassId, Kind], tuple[int, frozenset[int]]] = {}

    def fit(self, row: PendingUnit, head: Head) -> Fitted:
        """As `Fitter.fit`. The claim of a unit of which something is placed is over."""
        own = self._claims.find(row.id)
        if own is None:
            fitted = self._try(row, head, frozenset())
        else:
            fitted = self._try(row, head, frozenset({row.id}))
        if fitted.left and fitted.placed < head.most:
            usable = self._usable.of(row)
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

    def wanted_among(self, queue_ids: Collection[int]) -> set[int]:
        return {*queue_ids} if any(self._claims.taken.values()) else set()

    @property
    def changes(self) -> int:
        return self._claims.changes + len(self._misses)

    def wants(self, class_id: ClassId) -> bool:
        all_kept = self._all_kept()
        if not all_kept or (class_id[1], all_kept) in self._misses:
            return False
        if not self._has_quota(class_id) or self._has_missed(class_id[1], all_kept):
            return False
        kinds = self._world.backlog.kinds_in[class_id]
        return any(self._may_use_some(class_id, kind) for kind in kinds) or any(
            (row.queue_id, row.shape_id) == class_id for row in self._claimants()
        )

    def may_use_any(self, row: PendingUnit) -> bool:
        """Whether the row could use what others of its class could not."""
        is_claimant = self._claims.find(row.id) is not None
        return is_claimant or self._may_use_some((row.queue_id, row.shape_id), kind_of(row))

    def _may_use_some(self, class_id: ClassId, kind: Kind) -> bool:
        known = self._usable_by.get((class_id, kind))
        if known is None or known[0] != self._claims.changes:
            usable = self._usable.of(self._one_of(class_id, kind))
            known = self._usable_by[class_id, kind] = self._claims.changes, usable
        return bool(known[1]) and not self._has_missed(class_id[1], known[1])

    def _has_quota(self, class_id: ClassId) -> bool:
        queue_id, shape_id = class_id
        return self._fitter.quota.has_room(queue_id, self._fitter.query(shape_id))

    def _one_of(self, class_id: ClassId, kind: Kind) -> PendingUnit:
        """A row of the class and kind, younger than all that wait."""
        row = self._world.pending[self._world.backlog.classes[class_id][-1][4]]
        return replace(row, id=0, **kind._asdict())

    def _claimants(self) -> Iterator[PendingUnit]:
        return (self._world.pending[unit_id] for unit_id in self._claims.by_unit)

    def _all_kept(self) -> frozenset[int]:
        """Units for which something was kept when claims changed last."""
        if self._kept[0] != self._claims.changes:
            kept = frozenset(unit_id for unit_id, taken in self._claims.taken.items() if taken)
            self._kept = self._claims.changes, kept
        return self._kept[1]

    def _has_missed(self, shape_id: int, usable: frozenset[int]) -> bool:
        """Whether the shape is known to have no place either where what is kept for these is lent."""
        if (shape_id, usable) in self._misses:
            return True
        (role, *_) = self._fitter.query(shape_id).roles
        if self._lent.may_seat(role, usable):
            return False
        if not self._fitter.has_missed(shape_id) and role.may_seat_all():
            return False
        self._misses.add((shape_id, usable))
        return True

    def _try(self, row: PendingUnit, head: Head, usable: frozenset[int], already: int = 0) -> Fitted:
        fitter, capacity = self._fitter, self._world.capacity
        before = len(fitter.admissions)
        if not usable or not any(self._claims.taken.get(unit_id) for unit_id in usable):
            fitted = fitter.fit(row, most=head.most - already, is_within=head.is_within)
        else:
            if self._has_missed(row.shape_id, usable) or fitter.caps_of(row, is_kept=False) is None:
                return Fitted(0, 1)
            mark = capacity.lend(taken for unit_id in sorted(usable) for taken in self._claims.taken[unit_id])
            fitted = fitter.fit(row, most=head.most - already, is_within=head.is_within, is_lent=True)
            if not fitted.placed:
                capacity.undo(mark)
                if fitter.has_missed_lent:
                    # What finds no place on more finds none on less.
                    self._misses.add((row.shape_id, usable))
                    fitter.misses.add(row.shape_id)
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
