"""What seats there would be if what is kept for some claims were lent: told from numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from service.admission.claims.book import ClaimBook
from service.admission.held.holds import Taken
from service.admission.nodes.capacity import Capacity, Mark
from service.admission.nodes.field import Field
from service.admission.nodes.query import RoleQuery
from service.admission.nodes.seats import most_seats
from service.admission.nodes.topology import Domain


class _Most(NamedTuple):
    """How many seats there were at most, and for what the capacity, its takes and claims stood then."""

    lent: int
    stamp: tuple[int, int]
    seats: int


class _Kept(NamedTuple):
    """What is kept for one claim (`taken`) on nodes of some fields. By domain: how many seats that makes,
    on how many nodes of a field, and on which. `nodes`: all of these."""

    taken: tuple[Taken, ...]
    extra: Mapping[Domain, int]
    counts: Mapping[Domain, int]
    on: Mapping[Domain, set[int]]
    nodes: frozenset[int]


class _KeptBy:
    """By claim, with what the capacity was like then."""

    __slots__ = ("by_unit", "mark")

    def __init__(self, mark: Mark) -> None:
        self.mark = mark
        self.by_unit: dict[int, _Kept] = {}

    def follow(self, capacity: Capacity) -> None:
        """Forget those of which a node has changed."""
        changed = capacity.changed_since(self.mark)
        self.mark = capacity.mark
        if changed is None:
            self.by_unit.clear()
        elif changed:
            for unit_id in [
                each for each, kept in self.by_unit.items() if not changed.isdisjoint(kept.nodes)
            ]:
                del self.by_unit[unit_id]


class LentSeats:
    """Of one cycle."""

    def __init__(self, capacity: Capacity, claims: ClaimBook) -> None:
        self._capacity = capacity
        self._claims = claims
        self._most: dict[tuple[tuple[Field, ...], int, frozenset[int]], _Most] = {}
        #: By fields and GPUs of a member.
        self._kept: dict[tuple[tuple[Field, ...], int], _KeptBy] = {}

    def may_seat(self, role: RoleQuery, unit_ids: frozenset[int]) -> bool:
        """Whether members that find no place find some if all is lent that is kept for these units. A no is
        certain, a yes is not."""
        gpus = role.requests.gpus
        return not gpus or self._may_seat(role.fields, gpus, unit_ids, role.count)

    def _may_seat(self, fields: tuple[Field, ...], gpus: int, unit_ids: frozenset[int], count: int) -> bool:
        """In one domain of those where something is kept."""
        capacity, key = self._capacity, (fields, gpus, unit_ids)
        known = self._most.get(key)
        if known is not None and known.lent == capacity.lent and known.seats < count:
            # Since then the cycle has only taken, if it be for claims: there are no more than there were.
            return False
        stamp = capacity.takes, self._claims.changes
        if known is None or known.stamp != stamp:
            seats = most_seats(fields, gpus, self._extra(fields, gpus, unit_ids))
            known = self._most[key] = _Most(capacity.lent, stamp, seats)
        return known.seats >= count

    def _extra(self, fields: tuple[Field, ...], gpus: int, unit_ids: Collection[int]) -> Mapping[Domain, int]:
        extra, on = Counter[Domain](), dict[Domain, set[int]]()
        for kept in self._kept_of(fields, gpus, unit_ids):
            for domain, nodes in kept.on.items():
                # Two claims on one node may make a seat together that neither makes alone.
                extra[domain] += kept.extra[domain] + kept.counts[domain]
                on.setdefault(domain, set()).update(nodes)
        for domain, nodes in on.items():
            extra[domain] -= len(nodes)
        return extra

    def _kept_of(self, fields: tuple[Field, ...], gpus: int, unit_ids: Collection[int]) -> Iterable[_Kept]:
        """As found before, as long as the same is kept and nothing has changed on its nodes."""
        known = self._kept.get((fields, gpus))
        if known is None:
            known = self._kept[fields, gpus] = _KeptBy(self._capacity.mark)
        known.follow(self._capacity)
        for unit_id in unit_ids:
            taken, kept = self._claims.taken.get(unit_id, ()), known.by_unit.get(unit_id)
            if kept is None or kept.taken is not taken:
                kept = known.by_unit[unit_id] = _find(taken, fields, gpus)
            yield kept


def _find(kept: tuple[Taken, ...], fields: Iterable[Field], gpus: int) -> _Kept:
    extra, counts, on = Counter[Domain](), Counter[Domain](), dict[Domain, set[int]]()
    for taken in kept:
        for field in fields:
            membership = field.members.get(taken.node_id)
            if membership is not None and membership.state.is_available:
                state, domain = membership.state, membership.stock.domain
                now, _ = state.count(membership.eligible)
                lent = now + sum(state.held.get(device) == 1 for device in taken.devices)
                extra[domain] += lent // gpus - now // gpus
                counts[domain] += 1
                on.setdefault(domain, set()).add(taken.node_id)
    return _Kept(kept, extra, counts, on, frozenset(taken.node_id for taken in kept))
