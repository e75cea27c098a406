"""What seats there would be if what is kept for some claims were lent: told from numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from service.admission.capacity import Capacity
from service.admission.claims import ClaimBook
from service.admission.field import Field, Membership
from service.admission.holds import Taken
from service.admission.node_state import NodeState
from service.admission.query import RoleQuery
from service.admission.seats import most_seats
from service.admission.topology import Domain


class _Kept(NamedTuple):
    """A node on which something is kept for one claim, and its free GPUs without and with that. `free`: what
    is free on it."""

    membership: Membership
    free: frozenset[int]
    now: int
    lent: int


class LentSeats:
    """Of one cycle."""

    def __init__(self, capacity: Capacity, claims: ClaimBook) -> None:
        self._capacity = capacity
        self._claims = claims
        self._most: dict[tuple[tuple[Field, ...], int, frozenset[int]], tuple[tuple[int, int], int]] = {}
        #: By claim and fields, with what was kept.
        self._found: dict[tuple[int, tuple[Field, ...]], tuple[tuple[Taken, ...], list[_Kept]]] = {}

    def may_seat(self, role: RoleQuery, unit_ids: frozenset[int]) -> bool:
        """Whether members that find no place find some if all is lent that is kept for these units. A no is
        certain, a yes is not."""
        gpus = role.requests.gpus
        return not gpus or self._most_seats(role.fields, gpus, unit_ids) >= role.count

    def _most_seats(self, fields: tuple[Field, ...], gpus: int, unit_ids: frozenset[int]) -> int:
        """In one domain of those where something is kept."""
        stamp, key = (self._capacity.takes, self._claims.changes), (fields, gpus, unit_ids)
        known = self._most.get(key)
        if known is None or known[0] != stamp:
            known = self._most[key] = stamp, most_seats(fields, gpus, self._extra(fields, gpus, unit_ids))
        return known[1]

    def _extra(self, fields: tuple[Field, ...], gpus: int, unit_ids: Collection[int]) -> Mapping[Domain, int]:
        extra, on = Counter[Domain](), set[NodeState]()
        for unit_id in unit_ids:
            for membership, _, now, lent in self._kept_of(unit_id, fields):
                # Two claims on one node may make a seat together that neither makes alone.
                extra[membership.stock.domain] += lent // gpus - now // gpus + (membership.state in on)
                on.add(membership.state)
        return extra

    def _kept_of(self, unit_id: int, fields: tuple[Field, ...]) -> list[_Kept]:
        """As found before, as long as the same is kept and nothing has changed on its nodes."""
        taken, key = self._claims.taken.get(unit_id, ()), (unit_id, fields)
        known = self._found.get(key)
        if (
            known is None
            or known[0] is not taken
            or any(each.membership.state.free != each.free for each in known[1])
        ):
            known = self._found[key] = taken, list(_find(taken, fields))
        return known[1]


def _find(kept: Iterable[Taken], fields: Iterable[Field]) -> Iterator[_Kept]:
    for taken in kept:
        for field in fields:
            membership = field.members.get(taken.node_id)
            if membership is not None and membership.state.is_available:
                state = membership.state
                now, _ = state.count(membership.eligible)
                kept_alone = (state.held.get(device) == 1 for device in taken.devices)
                yield _Kept(membership, state.free, now, lent=now + sum(kept_alone))
