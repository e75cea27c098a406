"""Fit one waiting row: quota first, then places. What fits is taken at once, so that the rows
behind see what is left."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from service.admission.elastic.sizes import Counts, largest
from service.admission.held.holds import Taken, taken_by
from service.admission.nodes.capacity import Capacity
from service.admission.nodes.query import NO_MODEL, ShapeQuery
from service.admission.placement.placement import place_gang, place_members
from service.admission.placement.ranks import devices_of_members, gang_places
from service.admission.placement.scratch import Share
from service.admission.placement.seatless import Seatless
from service.admission.placement.witness import still_stands, witness_of
from service.admission.plan import Admission
from service.admission.quota.book import QuotaBook, exceeded_models
from service.admission.quota.own_limits import OwnLimits, exceeded, members_within
from service.admission.quota.own_use import OwnUse
from service.admission.waiting.terms import whole_id
from service.admission.world import PendingUnit
from service.domain.node import Place
from service.domain.shape import Shape, Sizing, usage_of
from service.domain.unit import unit_id


class Fitted(NamedTuple):
    """How many members of a row (1 for a gang) were placed, and how many still wait."""

    placed: int
    left: int


class Keeper(Protocol):
    """How much a row that wants so many units may take of resources that are kept from it."""

    def rooms(self, row: PendingUnit, want: int = 1) -> Mapping[str, int]: ...

    def keep(self, row: PendingUnit, want: int) -> Mapping[str, int]:
        """Asked for a row that starts, if it may."""


class Fitter:
    """Admissions of one cycle. A shape that found no place in it is not tried again, for any
    queue: resources only shrink within a cycle."""

    def __init__(
        self, capacity: Capacity, shapes: Mapping[int, Shape], quota: QuotaBook, *, own_use: OwnUse
    ) -> None:
        self._capacity = capacity
        self._shapes = shapes
        self.quota = quota
        #: What users and groups may hold, where their queue limits it.
        self.limits = OwnLimits(own_use, self.query)
        #: Shapes that are known to find no place, whatever the quota.
        self.misses: set[int] = set()
        #: Those of them that find none either where everything is lent that is kept for others.
        self.hopeless: set[int] = set()
        #: Shapes of which nothing is known that says so: within the cycle only a miss tells more.
        self._undecided: set[int] = set()
        self._seatless: Seatless | None = None
        #: What a unit of one member holds, by shape and model.
        self._usages: dict[tuple[int, str], Mapping[str, int]] = {}
        #: Whether anything is kept for others; whether the row under way is tried on some of it, and has
        #: no place there, whatever the quota.
        self.has_kept = bool(capacity.kept)
        self._is_lent = False
        self.has_missed_lent = False
        #: How many members of a row have been admitted in this cycle.
        self._placed: dict[int, int] = {}
        self.admissions: list[Admission] = []
        #: Who keeps quota for others, and what is kept from the row under way.
        self.keeper: Keeper | None = None
        self._kept_quota: Mapping[str, int] = {}

    def query(self, shape_id: int) -> ShapeQuery:
        return self._capacity.query(shape_id, self._shapes[shape_id])

    def fit(
        self, row: PendingUnit, *, most: int | None = None, is_within: bool = False, is_lent: bool = False
    ) -> Fitted:
        """Admit what fits of the row: a gang whole, of a range as many as fit (no more than `most`), lowest
        index first. `is_within`: only on models of which the queue has nominal quota left. `is_lent`: on more
        than what is free for everybody, so that a miss says nothing of others."""
        query, before = self.query(row.shape_id), self._placed.get(row.id, 0)
        want = 1 if query.shape.is_gang else row.last_index - row.first_index + 1 - before
        wanted = want if most is None else min(want, most)
        placed = 0
        self._is_lent, self.has_missed_lent = is_lent, False
        is_hopeless = not is_lent and self.has_missed(row.shape_id)
        if self.keeper is not None:
            self._kept_quota = self.keeper.keep(row, wanted)
        if not is_hopeless and not self._is_too_much(row, query):
            caps = self._caps(row, query, is_within=is_within or self.may_not_borrow(row))
            if query.shape.is_gang:
                placed = self._fit_gang(row, query, caps)
            else:
                placed = self._fit_members(row, query, want=wanted, caps=caps)
        self._kept_quota = {}
        self._placed[row.id] = before + placed
        return Fitted(placed, want - placed)

    def caps_of(self, row: PendingUnit, *, is_kept: bool = True) -> dict[str, int] | None:
        """GPUs by model that the row may take, for models that are bounded; None if that is too little,
        whichever places it finds. `is_kept`: beside what is kept of quota for others."""
        query = self.query(row.shape_id)
        if self._is_too_much(row, query):
            return None
        if is_kept and self.keeper is not None:
            self._kept_quota = self.keeper.rooms(row)
        caps = self._caps(row, query, is_within=self.may_not_borrow(row))
        is_too_much = bool(self._kept_quota) and self._is_too_much(row, query)
        self._kept_quota = {}
        return None if is_too_much or exceeded_models(query, caps) else caps

    def may_not_borrow(self, row: PendingUnit) -> bool:
        """What nobody could take back may not be borrowed."""
        return not row.is_preemptible and self.may_borrow(row.queue_id)

    def may_borrow(self, queue_id: int) -> bool:
        """Whether there is anybody of whom the queue could borrow."""
        return self.quota.tree.queues[queue_id].parent is not None

    def fit_claimant(self, row: PendingUnit) -> Fitted:
        """As `fit`, of a row with places of its own."""
        return self.fit(row, is_lent=True)

    def has_missed(self, shape_id: int, *, is_lent: bool = False) -> bool:
        """Whether the shape is known to find no place, whatever the quota; `is_lent`: also not on what is
        kept for others."""
        known = self.hopeless if is_lent else self.misses
        if shape_id not in known:
            if not is_lent and shape_id in self._undecided:
                return False
            if self._capacity.find_answer(shape_id, self.query(shape_id), is_lent=is_lent) is not False:
                if not is_lent:
                    self._undecided.add(shape_id)
                return False
            self._note_miss(shape_id, is_lent=is_lent)
        return True

    def would_miss(self, shape_id: int, *, is_lent: bool = False) -> bool:
        """As `has_missed`, finding it out if need be. `is_lent`: the caller has lent all that is kept."""
        query = self.query(shape_id)
        if self.has_missed(shape_id, is_lent=is_lent):
            return True
        if self._capacity.find_answer(shape_id, query, is_lent=is_lent):
            return False
        has_place = self._has_place(shape_id, query)
        self._capacity.remember(shape_id, query, has_place=has_place, is_lent=is_lent)
        if not has_place:
            self._note_miss(shape_id, is_lent=is_lent)
        return not has_place

    def find_misses(self, shape_ids: Collection[int]) -> None:
        """`would_miss` of all that wait: most of them are told at once."""
        self.note_seatless(shape_ids)
        for shape_id in shape_ids:
            self.would_miss(shape_id)

    def note_seatless(self, shape_ids: Collection[int], *, is_lent: bool = False) -> None:
        """Of all that wait, those of which a look at domains tells that they would miss."""
        for shape_id in self.find_seatless(shape_ids):
            self._note_miss(shape_id, is_lent=is_lent)

    def find_seatless(self, shape_ids: Collection[int]) -> set[int]:
        """The same, without a note of it."""
        if self._seatless is None:
            self._seatless = Seatless((shape_id, self.query(shape_id)) for shape_id in shape_ids)
        return set(self._seatless.find())

    def _has_place(self, shape_id: int, query: ShapeQuery) -> bool:
        """Where it had one before, or anywhere."""
        witnesses = self._capacity.witnesses
        if still_stands(query, witnesses.get(shape_id, ())):
            return True
        if query.shape.is_gang:
            shares = place_gang(self._capacity, query, caps={})
        else:
            shares = place_members(self._capacity, query, caps={}, want=1)
        if shares:
            witnesses[shape_id] = witness_of(query, shares)
        return bool(shares)

    def _note_miss(self, shape_id: int, *, is_lent: bool) -> None:
        self.misses.add(shape_id)
        if is_lent or not self.has_kept:
            self.hopeless.add(shape_id)

    def _fit_gang(self, row: PendingUnit, query: ShapeQuery, caps: Mapping[str, int]) -> int:
        shape = self._shapes[row.shape_id]
        found = self._place_gang(row, query, caps)
        if found is None:
            if all(cap >= query.total.gpus for cap in caps.values()):
                self._miss(row.shape_id, query)
            return 0
        query, shares = found
        if query.is_single:
            return self._admit_single(row, query, shares[0])
        places = tuple(gang_places(shape, shares, self._capacity.nodes))
        models: dict[int, dict[str, int]] = {}
        for share in shares:
            by_model = models.setdefault(share.role, {})
            if share.model != NO_MODEL:
                by_model[share.model] = by_model.get(share.model, 0) + len(share.devices)
        taken = taken_by(places, query.shape)
        self._capacity.take(taken)
        self._admit(row, 0, places=places, taken=taken, usage=usage_of(query.shape, models))
        return 1

    def _admit_single(self, row: PendingUnit, query: ShapeQuery, share: Share) -> int:
        """A gang of one member: as any other, with what its equals hold."""
        key = row.shape_id, share.model
        usage = self._usages.get(key)
        if usage is None:
            gpus = {} if share.model == NO_MODEL else {share.model: share.gpus}
            usage = self._usages[key] = usage_of(query.shape, {0: gpus})
        (devices,) = devices_of_members(share)
        taken = Taken(share.node_id, devices, share.cpus_milli, share.memory_mib)
        self._capacity.take((taken,))
        self._admit(row, 0, places=(Place(0, 0, share.node_id, devices),), taken=(taken,), usage=usage)
        return 1

    def _place_gang(
        self, row: PendingUnit, query: ShapeQuery, caps: Mapping[str, int]
    ) -> tuple[ShapeQuery, tuple[Share, ...]] | None:
        """Places, and the size for which they are: of an elastic gang the largest that fits now."""
        if self._shapes[row.shape_id].is_elastic:
            return self._place_elastic(row, query, caps)
        shares = place_gang(self._capacity, query, caps=caps, avoided=row.avoided_nodes)
        return None if shares is None else (query, shares)

    def _place_elastic(
        self, row: PendingUnit, query: ShapeQuery, caps: Mapping[str, int]
    ) -> tuple[ShapeQuery, tuple[Share, ...]] | None:
        def place(counts: Counts) -> tuple[ShapeQuery, tuple[Share, ...]] | None:
            sized = query.sized(counts)
            if self._is_too_much(row, sized):
                return None
            shares = place_gang(self._capacity, sized, caps=caps, avoided=row.avoided_nodes)
            return None if shares is None else (sized, shares)

        return largest(self._shapes[row.shape_id], place)

    def _fit_members(self, row: PendingUnit, query: ShapeQuery, *, want: int, caps: Mapping[str, int]) -> int:
        within = self.quota.members_within(row.queue_id, query, want)
        within = members_within(query, self._rooms(row), within)
        shares = place_members(self._capacity, query, caps=caps, want=within, avoided=row.avoided_nodes)
        first = index = row.first_index + self._placed.get(row.id, 0)
        for share in shares:
            self._capacity.take([Taken(share.node_id, share.devices, share.cpus_milli, share.memory_mib)])
            gpus = {} if share.model == NO_MODEL else {share.model: share.gpus}
            usage = usage_of(query.shape, {0: gpus})
            for devices in devices_of_members(share):
                places = (Place(index, 0, share.node_id, devices),)
                self._admit(row, index, places=places, taken=taken_by(places, query.shape), usage=usage)
                index += 1
        placed = index - first
        if placed < within and all(cap >= query.total.gpus * within for cap in caps.values()):
            self._miss(row.shape_id, query)
        return placed

    def _caps(self, row: PendingUnit, query: ShapeQuery, *, is_within: bool) -> dict[str, int]:
        """GPUs by model that the row may take, for models that are bounded."""
        if not query.models:
            return {}
        caps = self.quota.caps(row.queue_id, query, is_within=is_within)
        for resource, room in self._rooms(row).items():
            if resource in query.models:
                caps[resource] = min(room, caps.get(resource, room))
        return caps

    def _rooms(self, row: PendingUnit) -> Mapping[str, int]:
        """What owner and group may hold, and what is not kept for others."""
        if not self.limits.is_limited(row.queue_id):
            return self._kept_quota
        rooms = self.limits.rooms(row)
        for resource, room in self._kept_quota.items():
            rooms[resource] = min(room, rooms.get(resource, room))
        return rooms

    def _is_too_much(self, row: PendingUnit, query: ShapeQuery) -> bool:
        """For the queue, for its owner or group, or beside what is kept, whichever model it takes."""
        if not self.quota.has_room(row.queue_id, query):
            return True
        rooms = self._rooms(row)
        return bool(rooms) and bool(exceeded(query, rooms))

    def _miss(self, shape_id: int, query: ShapeQuery) -> None:
        if self._is_lent:
            self.has_missed_lent = True
            return
        self._note_miss(shape_id, is_lent=False)
        self._capacity.remember(shape_id, query, has_place=False)

    def _admit(
        self,
        row: PendingUnit,
        index: int,
        *,
        places: tuple[Place, ...],
        taken: tuple[Taken, ...],
        usage: Mapping[str, int],
    ) -> None:
        self.quota.charge(row.queue_id, usage)
        self.limits.charge(row, usage)
        self.admissions.append(
            Admission(
                unit_id=unit_id(row.group_id, index),
                from_unit_id=row.id,
                group_id=row.group_id,
                queue_id=row.queue_id,
                shape_id=whole_id(row.shape_id),
                pool_id=self._capacity.nodes[places[0].node_id].node.pool_id,
                index=index,
                attempt=row.attempt,
                version=row.version,
                places=places,
                usage=usage,
                cpus_milli_by_node={each.node_id: each.cpus_milli for each in taken},
                memory_mib_by_node={each.node_id: each.memory_mib for each in taken},
                is_resizable=self._shapes[row.shape_id].sizing is Sizing.WHILE_RUNNING
                and self._capacity.can_resize(places[0].node_id),
            )
        )
