"""How many seats there would be if all went who might give way: counted by GPUs alone, and only as often as
it may have become enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from service.admission.held.holds import Taken
from service.admission.nodes.capacity import Capacity
from service.admission.nodes.field import Field
from service.admission.nodes.query import RoleQuery
from service.admission.nodes.seats import add_seats, seats_in
from service.admission.nodes.topology import Domain
from service.admission.preemption.candidates import Source

_Seats = Mapping[Domain, int]


class _Counted(NamedTuple):
    """Seats in the domains where something may become free, the most of them, and for what the capacity and
    its takes stood then."""

    lent: int
    takes: int
    seats: _Seats
    most: int


class SeatsToCome:
    """Of one cycle. `leaving`: what those hold who go whoever comes."""

    def __init__(self, capacity: Capacity, leaving: Source) -> None:
        self._capacity = capacity
        self._leaving = leaving
        self._by_leaving: dict[tuple[tuple[Field, ...], int], tuple[tuple[int, int], _Seats]] = {}
        #: By fields, GPUs of a member and who might give way, with nothing lent.
        self._counted: dict[tuple[object, ...], _Counted] = {}

    def forget(self) -> None:
        """More units leave."""
        self._by_leaving.clear()
        self._counted.clear()

    def may_seat(self, role: RoleQuery, *, sources: Sequence[Source], lent: Sequence[Taken]) -> bool:
        """Whether all members of the role may sit in one domain if what `sources` hold, and what is `lent`,
        were free. A no is certain, a yes is not."""
        gpus = role.requests.gpus
        if not gpus:
            return True
        key = (role.fields, gpus, *(id(source) for source in sources))
        known = self._counted.get(key)
        if known is None or known.lent != self._capacity.lent:
            known = self._counted[key] = self._count(role.fields, gpus, sources)
        if lent:
            if self._most_with(lent, known.seats, fields=role.fields, gpus=gpus) < role.count:
                return False
            return self._count(role.fields, gpus, sources, lent).most >= role.count
        # A cycle only takes: there are no more than there were, and as many while it has taken nothing.
        if known.most >= role.count and known.takes != self._capacity.takes:
            known = self._counted[key] = self._count(role.fields, gpus, sources)
        return known.most >= role.count

    def _count(
        self, fields: tuple[Field, ...], gpus: int, sources: Sequence[Source], lent: Iterable[Taken] = ()
    ) -> _Counted:
        extra = Counter(self._extra_of_leaving(fields, gpus))
        lent_on: dict[int, list[Taken]] = {}
        for taken in lent:
            lent_on.setdefault(taken.node_id, []).append(taken)
        for node_id in set(lent_on).union(*(source.nodes for source in sources)):
            gone = [*lent_on.get(node_id, ())]
            for source in (self._leaving, *sources):
                gone.extend(source.nodes.get(node_id, ()))
            add_seats(extra, node_id, gone, fields=fields, gpus=gpus)
        seats = {domain: more + seats_in(domain, fields, gpus) for domain, more in extra.items()}
        most = max(seats.values(), default=0)
        return _Counted(self._capacity.lent, self._capacity.takes, seats, most)

    def _extra_of_leaving(self, fields: tuple[Field, ...], gpus: int) -> _Seats:
        stamp = self._capacity.lent, self._capacity.takes
        known = self._by_leaving.get((fields, gpus))
        if known is None or known[0] != stamp:
            extra = Counter[Domain]()
            for node_id, gone in self._leaving.nodes.items():
                add_seats(extra, node_id, gone, fields=fields, gpus=gpus)
            known = self._by_leaving[fields, gpus] = stamp, extra
        return known[1]

    def _most_with(
        self, lent: Sequence[Taken], seats: _Seats, *, fields: tuple[Field, ...], gpus: int
    ) -> int:
        """More are not counted in one domain with what is `lent` besides: of what becomes free on a node each
        full number of GPUs makes one, and the rest, with what was left over there, one more. Where somebody
        leaves, that is counted again then."""
        devices = Counter[int]()
        for taken in lent:
            devices[taken.node_id] += len(taken.devices)
        for node_id in devices.keys() & self._leaving.nodes.keys():
            devices[node_id] += sum(len(taken.devices) for taken in self._leaving.nodes[node_id])
        extra = Counter[Domain]()
        for node_id, count in devices.items():
            for field in fields:
                membership = field.members.get(node_id)
                if membership is not None and membership.state.is_available:
                    extra[membership.stock.domain] += -(-count // gpus)
        most = max(seats.values(), default=0)
        for domain, more in extra.items():
            without = seats[domain] if domain in seats else seats_in(domain, fields, gpus)
            most = max(most, without + more)
        return most
