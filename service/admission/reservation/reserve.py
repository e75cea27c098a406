"""What is done for a head that does not fit: places are kept for it, at once, so that nobody behind it
counts on them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from itertools import chain

from service.admission.claims.dating import LATE, Dated, Search
from service.admission.order.openings import Openings
from service.admission.policy import Policy
from service.admission.preemption.preempt import Preemptor
from service.admission.reservation.asked_heads import AskedHeads
from service.admission.reservation.books import Books
from service.admission.reservation.giving_way import GivingWay
from service.admission.reservation.guard import find_expired
from service.admission.reservation.guard_turns import GuardTurns
from service.admission.reservation.head_claims import HeadClaims
from service.admission.reservation.readiness import Readiness
from service.admission.reservation.undated import Undated
from service.admission.resident import World
from service.admission.waiting.line import Key
from service.admission.world import PendingUnit
from service.domain.claim import Claim, ClaimCause
from service.domain.node import Place


class Reserver:
    """Claims that are made and dated in one cycle. `asked`: which heads it wants to see."""

    def __init__(
        self,
        world: World,
        now: datetime,
        *,
        policy: Policy,
        books: Books,
        openings: Openings,
        preemptor: Preemptor,
    ) -> None:
        fitter, claims = books.fitter, books.claims
        self._world = world
        self._now = now
        self._key = world.backlog.key
        self._has_dates = policy.reserve_depth != 0
        self._guard_seconds = policy.guard_seconds
        self._fitter = fitter
        self._claims = claims
        self._ends = books.ends
        self._heads = HeadClaims(
            world, claims=claims, precedence=books.precedence, depth=policy.reserve_depth
        )
        self._readiness = Readiness(world, now, fitter=fitter, kept=books.kept)
        self._undated = Undated(world, fitter=fitter, claims=claims)
        self._giving_way = GivingWay(
            now, policy=policy, fitter=fitter, claims=claims, heads=self._heads, preemptor=preemptor
        )
        self.asked = AskedHeads(
            world,
            has_dates=self._has_dates,
            openings=openings,
            books=books,
            heads=self._heads,
            undated=self._undated,
            giving_way=self._giving_way,
        )

    def has_claim(self, row: PendingUnit) -> bool:
        """Where a row was asked and has none, its equals behind it would get none either."""
        return self._claims.find(row.id) is not None

    # ------------------------------------------------------------------ claims that are there
    def renew(self) -> None:
        """Date what is kept by who holds its places now. Other places are sought only if one is lost, or
        somebody on them stays longer than the date said."""
        for claim in self._claims:
            row = self._world.pending[claim.unit_id]
            if claim.cause is ClaimCause.PREEMPTION:
                # Its places are looked at where it is served.
                self._renew(claim, row, Dated(claim.due_at))
                continue
            dated = self._ends.date_of(row, claim.places, self._claims.taken.get(claim.unit_id, ()))
            self._renew(claim, row, dated)

    def _renew(self, claim: Claim, row: PendingUnit, dated: Dated) -> None:
        is_due = claim.due_at is None or claim.due_at <= self._now
        if is_due and claim.cause is not ClaimCause.PREEMPTION and not self._readiness.may_start(row):
            # Its date has come, and it lacks something else: what is kept for it would only lie idle.
            self._claims.give_up(claim.unit_id)
            self._heads.count(claim, -1)
            return
        is_later = claim.due_at is not None and (dated.due_at is None or dated.due_at > claim.due_at)
        if dated.is_lost or is_later:
            self.date_anew(claim, row, dated)
        elif claim.due_at is not None and claim.due_at <= self._now:
            due_at = self._due_at(dated)
            self._claims.redate(replace(claim, due_at=due_at, redated=claim.redated + 1))
        elif dated.due_at is not None and self._now < dated.due_at != claim.due_at:
            self._claims.redate(replace(claim, due_at=dated.due_at))

    def date_anew(self, claim: Claim, row: PendingUnit, dated: Dated | None = None) -> None:
        """Other places, as early as they are free, else the same ones with their new date, also if that is
        the earlier one: whom it may preempt is in its way on others alone. A claim of which neither is known
        is over, unless it is a guard's, which waits for ever."""
        if dated is None:
            dated = self._ends.date_of(row, claim.places, self._claims.taken.get(row.id, ()))
        found = self._search(row, is_endless=claim.cause is ClaimCause.GUARD)
        if found is not None and dated.due_at is not None and not dated.is_lost:
            _, due_at = found
            found = None if due_at is None or due_at > dated.due_at else found
        is_endless = claim.cause is ClaimCause.GUARD and not dated.is_lost
        if found is not None:
            places, due_at = found
            self._claims.make(replace(claim, places=places, due_at=due_at))
        elif dated.due_at is not None or is_endless:
            self._claims.redate(replace(claim, due_at=self._due_at(dated) if dated.due_at else None))
        else:
            self._claims.end(claim.unit_id)
            self._heads.count(claim, -1)

    # ------------------------------------------------------------------ claims that are made
    def guard(self) -> None:
        """For those whose guard has run out, before anybody is considered: what is free next is theirs."""
        expired = list(
            find_expired(
                self._world,
                self._now,
                self._guard_seconds,
                may_any=self._readiness.may_any_be_next,
                is_next=self._readiness.may_be_next,
            )
        )
        waiting = {row.id for row in expired if self._waits_for_places(row)}
        turns = GuardTurns(self._world, self._now, claims=self._claims, fitter=self._fitter)
        put_off: list[PendingUnit] = []
        for row in expired:
            claim = self._claims.find(row.id)
            if claim is not None:
                self._guard_claim(claim)
            elif row.id in waiting and turns.is_in_order(len(waiting)):
                self._keep_for_guard(row, turns)
            elif row.id in waiting:
                put_off.append(row)
        for row in turns.some_of(put_off):
            self._keep_for_guard(row, turns)

    def _waits_for_places(self, row: PendingUnit) -> bool:
        is_missed = row.shape_id in self._fitter.misses
        return is_missed and self._claims.find(row.id) is None and self._readiness.lacks_places_alone(row)

    def _keep_for_guard(self, row: PendingUnit, turns: GuardTurns) -> None:
        """Beside what is kept for others; if there is no such set, heads that come behind it give theirs up:
        else one after the other would, each with a date, and it would wait for ever."""
        behind = [claim for claim in self._claims if self._is_behind(row, claim)]
        # Quota may be kept for those before it by now.
        if not self._readiness.lacks_places_alone(row) or turns.is_vain(row, behind):
            return
        found = self._search(row, is_endless=True)
        if found is None and behind:
            found = self._search(row, is_endless=True, behind=behind)
        if found is None:
            turns.note_vain(row, behind)
            return
        places, due_at = found
        claim = Claim(unit_id=row.id, cause=ClaimCause.GUARD, made_at=self._now, due_at=due_at, places=places)
        self._make(claim)
        self._go_before(behind, claim)

    def _guard_claim(self, claim: Claim) -> None:
        """From now on only who comes before it in its queue goes before it."""
        if claim.cause is ClaimCause.HEAD:
            self._heads.count(claim, -1)
            self._claims.redate(replace(claim, cause=ClaimCause.GUARD))

    def reserve(self, row: PendingUnit, *, lacks_places: bool) -> bool:
        """For a head that is blocked now, and not by kept quota if it `lacks_places`. Whether others give way
        to it."""
        # 1. Others give way to it, if it is entitled to their places.
        behind = self._heads.behind(row)
        if self._preempt(row, behind):
            return True
        if lacks_places and self._claims.find(row.id) is None:
            self._keep_places(row, behind)
        return False

    def _keep_places(self, row: PendingUnit, behind: list[Claim]) -> None:
        # 2. Places alone are missing: there is quota, and the unit would fit if nothing else ran.
        class_id = row.queue_id, row.shape_id
        query = self._fitter.query(row.shape_id)
        if not self._has_dates or not self._readiness.lacks_places_alone(row):
            return
        # 3. So many heads have a dated claim. Those that this one goes before give theirs up to it.
        if not (self._heads.has_slot(row.queue_id, query) or behind) or class_id in self._undated.found:
            return
        # 4. The places that are free first.
        found = self._search(row, is_endless=False, behind=behind)
        if found is None:
            self._undated.note(row)
            return
        places, due_at = found
        claim = Claim(unit_id=row.id, cause=ClaimCause.HEAD, made_at=self._now, due_at=due_at, places=places)
        if self._make_room(claim, behind):
            self._make(claim)
            self._go_before(behind, claim)

    def _preempt(self, row: PendingUnit, behind: list[Claim]) -> bool:
        """Beside the claims of others, but on those that it goes before, which are dated anew behind it."""
        preemption = self._giving_way.plan(row, behind)
        if preemption is None:
            return False
        before = self._claims.find(row.id)
        if before is not None:
            self._heads.count(before, -1)
        self._claims.make(preemption.claim)
        self._fitter.has_kept = True
        self._fitter.limits.charge(row, preemption.usage)
        self._go_before(behind, preemption.claim)
        return True

    def _go_before(self, behind: Iterable[Claim], claim: Claim) -> None:
        """Heads that lose places to the claim get others. Without others they have none: when these are free
        again is not known before the claimant runs."""
        for other in behind:
            theirs = self._claims.find(other.unit_id)
            if theirs is not None and _share_devices(claim, theirs):
                self.date_anew(theirs, self._world.pending[theirs.unit_id], Dated(None))

    def date_anew_behind(self, unit_ids: Iterable[int]) -> None:
        """Claims on whose places somebody sits now who went first."""
        for unit_id in dict.fromkeys(unit_ids):
            claim = self._claims.find(unit_id)
            if claim is not None:
                self.date_anew(claim, self._world.pending[unit_id])

    def _make(self, claim: Claim) -> None:
        self._claims.make(claim)
        self._fitter.has_kept = True
        self._heads.count(claim, 1)

    def _make_room(self, claim: Claim, behind: list[Claim]) -> bool:
        """Whether the claim may be made. Where too many heads have one, the last of those that it goes before
        loses its own."""
        full = {slot for slot in self._heads.slots(claim) if not self._heads.is_open(slot)}
        if any(all(slot not in self._heads.slots(other) for other in behind) for slot in full):
            return False
        for other in sorted(behind, key=self._rank, reverse=True):
            if self._heads.slots(other) & {slot for slot in full if not self._heads.is_open(slot)}:
                self._claims.end(other.unit_id)
                self._heads.count(other, -1)
        return True

    def _search(
        self, row: PendingUnit, *, is_endless: bool, behind: Iterable[Claim] = ()
    ) -> tuple[tuple[Place, ...], datetime | None] | None:
        """Places that are free first, and when: beside all claims but the row's own and those `behind` it."""
        world, query = self._world, self._fitter.query(row.shape_id)
        besides = [row.id, *(claim.unit_id for claim in behind)]
        with self._claims.given_up(besides) as own:
            caps = self._fitter.caps_of(row)
            occupied = self._claims.rests(besides)
            search = Search(world, row, query, caps=caps if caps is not None else {}, occupied=occupied)
            places = search.run(self._ends.bounded())
            if places is None and is_endless:
                places = search.run(chain(self._ends.bounded(), self._ends.endless()))
        if places is None:
            return None
        dated = self._ends.date_of(row, places, own)
        return None if dated.is_lost else (places, self._due_at(dated) if dated.due_at else None)

    def _due_at(self, dated: Dated) -> datetime:
        """Never now or past: what could be free and is not gets another minute."""
        due_at = dated.due_at
        return due_at if due_at is not None and due_at > self._now else self._now + LATE

    def _is_behind(self, row: PendingUnit, claim: Claim) -> bool:
        """Whether the claim is of a head whose guard has not run out, and which does not come before the row
        in its own queue."""
        other = self._world.pending[claim.unit_id]
        is_before = other.queue_id == row.queue_id and self._key(other.id) < self._key(row.id)
        return claim.cause is ClaimCause.HEAD and not is_before

    def _rank(self, claim: Claim) -> Key:
        return self._key(claim.unit_id)


def _share_devices(one: Claim, other: Claim) -> bool:
    taken = {(place.node_id, device) for place in one.places for device in place.devices}
    return any((place.node_id, device) in taken for place in other.places for device in place.devices)
