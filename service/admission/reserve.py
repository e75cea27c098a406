"""What is done for a head that does not fit: places are kept for it, at once, so that nobody behind it
counts on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain

from service.admission.backlog import ClassId
from service.admission.claims import ClaimBook
from service.admission.dating import LATE, Dated, Ends, Search
from service.admission.eligibility import is_eligible
from service.admission.fit import Fitter
from service.admission.front import Onlooker
from service.admission.guard import find_expired
from service.admission.guard_line import waits_since
from service.admission.openings import Openings
from service.admission.policy import Policy
from service.admission.precedence import Precedence
from service.admission.preempt import Preemptor
from service.admission.query import NO_MODEL, ShapeQuery
from service.admission.resident import World
from service.admission.world import PendingUnit
from service.domain.claim import Claim, ClaimCause
from service.domain.node import Place
from service.domain.queue import Order

#: A cohort that has no parent, or a queue without one, and a flavor: where so many heads have a claim.
Slot = tuple[str, int, str]


#: For so many of those whose guard has run out places are sought in one cycle.
_GUARDED = 64


class Onlookers:
    """All who want to see heads that find no place beside what is kept."""

    def __init__(self, *those: Onlooker) -> None:
        self._those = those

    def wants_any_of(self, queue_id: int) -> bool:
        return any(each.wants_any_of(queue_id) for each in self._those)

    def wants(self, class_id: ClassId) -> bool:
        return any(each.wants(class_id) for each in self._those)

    @property
    def changes(self) -> int:
        return sum(each.changes for each in self._those)


class Reserver:
    """Claims that are made and dated in one cycle."""

    def __init__(
        self,
        world: World,
        now: datetime,
        *,
        policy: Policy,
        openings: Openings,
        fitter: Fitter,
        claims: ClaimBook,
        ends: Ends,
        preemptor: Preemptor,
    ) -> None:
        self._world = world
        self._now = now
        self._depth = policy.reserve_depth
        self._guard_seconds = policy.guard_seconds
        self._reclaim_delay_seconds = policy.reclaim_delay_seconds
        self._openings = openings
        self._fitter = fitter
        self._claims = claims
        self._ends = ends
        self._preemptor = preemptor
        self.precedence = Precedence(world, fitter.query)
        self._flavors: dict[int, frozenset[str]] = {}
        self._roots: dict[int, tuple[str, int]] = {}
        self._undated: set[ClassId] = set()
        self._near: tuple[int, dict[tuple[str, int], list[Claim]]] = -1, {}
        #: For whom nobody gives way, and how often claims had changed when that was found: a cycle frees
        #: nothing else.
        self._refused: dict[tuple[object, ...], int] = {}
        self._used: Counter[Slot] = Counter()
        for claim in claims:
            self._count(claim, 1)

    # ------------------------------------------------------------------ which heads are asked
    def wants_any_of(self, queue_id: int) -> bool:
        """Whether a blocked head of the queue may get a claim, also one that is known to have no place."""
        return (
            self._may_date_any_of(queue_id)
            or self._may_overtake_any(queue_id)
            or self._preemptor.wants_any_of(queue_id)
        )

    def wants(self, class_id: ClassId) -> bool:
        row = self._world.pending[self._world.backlog.classes[class_id][0][4]]
        return self._wants_date(class_id) or self._may_overtake(class_id) or self._may_preempt(row)

    @property
    def changes(self) -> int:
        return self._claims.changes + len(self._undated) + len(self._refused)

    def _may_overtake_any(self, queue_id: int) -> bool:
        line = self._world.backlog.lines.get(queue_id)
        if self._depth == 0 or line is None or not len(self._claims):
            return False
        if queue_id not in self._world.quota.queues:
            return False
        best = -line.keys[0][0]
        claimants = (self._world.pending[claim.unit_id] for claim in self._heads_near(queue_id))
        return any(each.queue_id != queue_id or best > each.priority for each in claimants)

    def _may_overtake(self, class_id: ClassId) -> bool:
        if self._depth == 0 or class_id in self._undated or not self._may_overtake_any(class_id[0]):
            return False
        row = self._world.pending[self._world.backlog.classes[class_id][0][4]]
        return self._claims.find(row.id) is None and bool(self._behind(row))

    def _may_date_any_of(self, queue_id: int) -> bool:
        """Whether any flavor that its classes could take has a slot."""
        is_known = queue_id in self._world.quota.queues
        if self._depth == 0 or not is_known or not self._openings.has_quota(queue_id):
            return False
        if queue_id not in self._flavors:
            revision = self._world.backlog.class_revisions.get(queue_id, 0)
            known = self._world.memory.flavors.get(queue_id)
            if known is None or known[0] != revision:
                shape_ids = self._world.backlog.shapes_in.get(queue_id, ())
                queries = (self._fitter.query(shape_id) for shape_id in shape_ids)
                flavors = frozenset(flavor for query in queries for flavor in query.models or (NO_MODEL,))
                known = self._world.memory.flavors[queue_id] = revision, flavors
            self._flavors[queue_id] = known[1]
        root = self._root(queue_id)
        return any(self._is_open((*root, flavor)) for flavor in self._flavors[queue_id])

    def _wants_date(self, class_id: ClassId) -> bool:
        queue_id, shape_id = class_id
        if self._depth == 0 or class_id in self._undated:
            return False
        query = self._fitter.query(shape_id)
        if not self._has_slot(queue_id, query) or not self._fitter.quota.has_room(queue_id, query):
            return False
        return self._world.memory.undated.get(class_id) != self._stamp()

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
        if is_due and claim.cause is not ClaimCause.PREEMPTION and not self._may_start(row):
            # Its date has come, and it lacks something else: what is kept for it would only lie idle.
            self._claims.end(claim.unit_id)
            self._count(claim, -1)
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
        """Other places, as early as they are free, else the same ones with their new date; a claim of which
        neither is known is over, unless it is a guard's, which waits for ever."""
        found = self._search(row, is_endless=claim.cause is ClaimCause.GUARD)
        if dated is None:
            dated = self._ends.date_of(row, claim.places, self._claims.taken.get(row.id, ()))
        is_endless = claim.cause is ClaimCause.GUARD and not dated.is_lost
        if found is not None:
            places, due_at = found
            self._claims.make(replace(claim, places=places, due_at=due_at))
        elif dated.due_at is not None or is_endless:
            self._claims.redate(replace(claim, due_at=self._due_at(dated) if dated.due_at else None))
        else:
            self._claims.end(claim.unit_id)
            self._count(claim, -1)

    # ------------------------------------------------------------------ claims that are made
    def guard(self) -> None:
        """For those whose guard has run out, before anybody is considered: what is free next is theirs."""
        searches = 0
        for row in find_expired(self._world, self._now, self._guard_seconds, is_next=self._may_be_next):
            claim = self._claims.find(row.id)
            if claim is not None:
                self._guard_claim(claim)
                continue
            if row.shape_id not in self._fitter.misses or not self._lacks_places_alone(row):
                continue
            searches += 1
            if searches <= _GUARDED:
                self._keep_for_guard(row)

    def _keep_for_guard(self, row: PendingUnit) -> None:
        """Beside what is kept for others; if there is no such set, heads that come behind it give theirs up:
        else one after the other would, each with a date, and it would wait for ever."""
        behind = [claim for claim in self._claims if self._is_behind(row, claim)]
        found = self._search(row, is_endless=True)
        if found is None and behind:
            found = self._search(row, is_endless=True, behind=behind)
        if found is not None:
            places, due_at = found
            claim = Claim(
                unit_id=row.id, cause=ClaimCause.GUARD, made_at=self._now, due_at=due_at, places=places
            )
            self._make(claim)
            self._go_before(behind, claim)

    def _guard_claim(self, claim: Claim) -> None:
        """From now on only who comes before it in its queue goes before it."""
        if claim.cause is ClaimCause.HEAD:
            self._count(claim, -1)
            self._claims.redate(replace(claim, cause=ClaimCause.GUARD))

    def reserve(self, row: PendingUnit, *, lacks_places: bool) -> bool:
        """For a head that is blocked now, and not by kept quota if it `lacks_places`. Whether others give way
        to it."""
        # 1. Others give way to it, if it is entitled to their places.
        behind = self._behind(row)
        if self._preempt(row, behind):
            return True
        if lacks_places and self._claims.find(row.id) is None:
            self._keep_places(row, behind)
        return False

    def _keep_places(self, row: PendingUnit, behind: list[Claim]) -> None:
        # 2. Places alone are missing: there is quota, and the unit would fit if nothing else ran.
        class_id = row.queue_id, row.shape_id
        query = self._fitter.query(row.shape_id)
        if self._depth == 0 or not self._lacks_places_alone(row):
            return
        # 3. So many heads have a dated claim. Those that this one goes before give theirs up to it.
        if not (self._has_slot(row.queue_id, query) or behind) or class_id in self._undated:
            return
        # 4. The places that are free first.
        found = self._search(row, is_endless=False, behind=behind)
        if found is None:
            self._note_undated(row, query)
            return
        places, due_at = found
        claim = Claim(unit_id=row.id, cause=ClaimCause.HEAD, made_at=self._now, due_at=due_at, places=places)
        if self._make_room(claim, behind):
            self._make(claim)
            self._go_before(behind, claim)

    def _may_preempt(self, row: PendingUnit) -> bool:
        """Whether others might give way to the row."""
        behind = self._behind(row)
        key = self._standing(row, behind)
        if self._refused.get(key) == self._claims.changes:
            return False
        lent = self._claims.kept_of(row.id, *(claim.unit_id for claim in behind))
        is_missed = self._fitter.has_missed(row.shape_id)
        may = self._preemptor.may_plan(row, lent=lent, is_missed=is_missed)
        if not may:
            self._refused[key] = self._claims.changes
        return may

    def _standing(self, row: PendingUnit, behind: Sequence[Claim]) -> tuple[object, ...]:
        """What decides whether others give way to the row: its equals are told the same."""
        waited = (self._now - waits_since(row)).total_seconds()
        return (
            (row.queue_id, row.shape_id, row.priority),
            (row.is_preemptible, row.has_never_run, waited < self._reclaim_delay_seconds),
            (row.id if self._claims.find(row.id) else None, *(claim.unit_id for claim in behind)),
        )

    def _preempt(self, row: PendingUnit, behind: list[Claim]) -> bool:
        """Beside the claims of others, but on those that it goes before, which are dated anew behind it."""
        if not self._may_preempt(row):
            return False
        besides = [row.id, *(claim.unit_id for claim in behind)]
        nodes = self._preemptor.nodes_of(row, self._claims.kept_of(*besides))
        with self._claims.occupied(nodes, besides=besides):
            preemption = self._preemptor.plan(row)
        if preemption is None:
            self._refused[self._standing(row, behind)] = self._claims.changes
            return False
        before = self._claims.find(row.id)
        if before is not None:
            self._count(before, -1)
        self._claims.make(preemption.claim)
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
        self._count(claim, 1)

    def _make_room(self, claim: Claim, behind: list[Claim]) -> bool:
        """Whether the claim may be made. Where too many heads have one, the last of those that it goes before
        loses its own."""
        full = {slot for slot in self._slots(claim) if not self._is_open(slot)}
        if any(all(slot not in self._slots(other) for other in behind) for slot in full):
            return False
        for other in sorted(behind, key=self._rank, reverse=True):
            if self._slots(other) & {slot for slot in full if not self._is_open(slot)}:
                self._claims.end(other.unit_id)
                self._count(other, -1)
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

    def _may_start(self, row: PendingUnit) -> bool:
        """Whether there is quota, and in a strict queue nobody before it."""
        return self._fitter.caps_of(row) is not None and self._is_first(row)

    def _may_be_next(self, row: PendingUnit) -> bool:
        if self._fitter.limits.is_over(row) or not self._is_first(row):
            return False
        # Its equals may borrow what it may not.
        return row.is_preemptible or self._fitter.caps_of(row) is not None

    def _is_first(self, row: PendingUnit) -> bool:
        """In a strict queue only the first may start."""
        is_strict = self._world.configuration.queues[row.queue_id].order is Order.STRICT
        return not is_strict or self._first_of(row.queue_id) == row.id

    def _first_of(self, queue_id: int) -> int | None:
        """The row that blocks a strict queue till it starts: of those that may start and could ever fit."""
        world = self._world
        rows = (world.pending[key[4]] for key in world.backlog.lines[queue_id].keys)
        return next((row.id for row in rows if self._blocks(row)), None)

    def _blocks(self, row: PendingUnit) -> bool:
        is_over = self._fitter.limits.is_over(row)
        return is_eligible(row, self._now) and not is_over and self._world.could_fit(row)

    def _lacks_places_alone(self, row: PendingUnit) -> bool:
        return self._fitter.caps_of(row) is not None and self._world.could_fit(row)

    def _behind(self, row: PendingUnit) -> list[Claim]:
        """Claims of heads that the row goes before, the oldest first."""
        return [claim for claim in self._heads_near(row.queue_id) if self.precedence.goes_before(row, claim)]

    def _heads_near(self, queue_id: int) -> Sequence[Claim]:
        """Claims of heads of its tree, the oldest first."""
        if self._near[0] != self._claims.changes:
            by_root: dict[tuple[str, int], list[Claim]] = {}
            for claim in self._claims:
                if claim.cause is ClaimCause.HEAD:
                    root = self._root(self._world.pending[claim.unit_id].queue_id)
                    by_root.setdefault(root, []).append(claim)
            self._near = self._claims.changes, by_root
        return self._near[1].get(self._root(queue_id), ())

    def _is_behind(self, row: PendingUnit, claim: Claim) -> bool:
        """Whether the claim is of a head whose guard has not run out, and which does not come before the row
        in its own queue."""
        other = self._world.pending[claim.unit_id]
        is_before = other.queue_id == row.queue_id and _order(other) < _order(row)
        return claim.cause is ClaimCause.HEAD and not is_before

    def _note_undated(self, row: PendingUnit, query: ShapeQuery) -> None:
        """Not asked again before somebody without a bound has ended, or claims have changed."""
        class_id = row.queue_id, row.shape_id
        self._undated.add(class_id)
        caps = self._fitter.caps_of(row) or {}
        if not self._world.capacity.is_in_use and all(cap >= query.total.gpus for cap in caps.values()):
            self._world.memory.undated[class_id] = self._stamp()

    def _stamp(self) -> tuple[int, int]:
        return self._world.holders.endless_ended, self._world.claims_revision

    def _rank(self, claim: Claim) -> tuple[int, datetime, int]:
        return _order(self._world.pending[claim.unit_id])

    # ------------------------------------------------------------------ how many claims there are
    def _has_slot(self, queue_id: int, query: ShapeQuery) -> bool:
        root = self._root(queue_id)
        return any(self._is_open((*root, model)) for model in query.models or (NO_MODEL,))

    def _is_open(self, slot: Slot) -> bool:
        return self._depth is None or self._used[slot] < self._depth

    def _count(self, claim: Claim, by: int) -> None:
        if claim.cause is ClaimCause.HEAD:
            for slot in self._slots(claim):
                self._used[slot] += by

    def _slots(self, claim: Claim) -> set[Slot]:
        root = self._root(self._world.pending[claim.unit_id].queue_id)
        nodes = self._world.configuration.nodes
        models = {
            device.model
            for place in claim.places
            if place.node_id in nodes
            for device in nodes[place.node_id].devices
            if device.index in place.devices
        }
        return {(*root, model) for model in models or {NO_MODEL}}

    def _root(self, queue_id: int) -> tuple[str, int]:
        if queue_id not in self._roots:
            cohorts = self._world.configuration.cohorts
            root, above = ("queue", queue_id), self._world.configuration.queues[queue_id].cohort_id
            while above is not None:
                root, above = ("cohort", above), cohorts[above].parent_id
            self._roots[queue_id] = root
        return self._roots[queue_id]


def _order(row: PendingUnit) -> tuple[int, datetime, int]:
    return -row.priority, row.submitted_at, row.id


def _share_devices(one: Claim, other: Claim) -> bool:
    taken = {(place.node_id, device) for place in one.places for device in place.devices}
    return any((place.node_id, device) in taken for place in other.places for device in place.devices)
