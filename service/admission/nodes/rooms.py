"""How much the domains of a field have room for, kept while they change: which of them could hold a role
at all is known before anything is packed there."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from service.admission.nodes.topology import Domain

if TYPE_CHECKING:
    from service.admission.nodes.field import Stock

#: Free GPUs and CPUs of a domain.
_Room = tuple[int, int, Domain]


class _Seats:
    """For how many members of one size domains have room at most, worked out when it is asked for."""

    __slots__ = ("_by_domain", "_cpus_milli", "_gpus", "most", "moved")

    def __init__(self, gpus: int, cpus_milli: int, *, domains: Iterable[Domain]) -> None:
        self._gpus = gpus
        self._cpus_milli = cpus_milli
        self._by_domain: dict[Domain, int] = {}
        self.moved = set(domains)
        #: Of any one domain; None: not worked out.
        self.most: int | None = None

    def settled(self, stocks: Mapping[Domain, Stock]) -> Mapping[Domain, int]:
        if self.moved:
            for domain in self.moved:
                stock = stocks.get(domain)
                self._by_domain[domain] = 0 if stock is None else stock.seats(self._gpus, self._cpus_milli)
            self.moved.clear()
            self.most = None
        return self._by_domain


class Rooms:
    """Of the stocks of one field. `moved`: those that have changed since anything was asked."""

    __slots__ = ("_listed", "_most", "_rooms", "_seats", "_stocks", "moved")

    def __init__(self, stocks: Mapping[Domain, Stock]) -> None:
        self._stocks = stocks
        self.moved: set[Stock] = set()
        self._rooms: list[_Room] = []
        self._listed: dict[Domain, _Room] = {}
        #: By GPUs and CPUs of a member.
        self._seats: dict[tuple[int, int], _Seats] = {}
        #: The most that is free in any one domain, by amount.
        self._most: dict[str, int] = {}

    def with_room(self, gpus: int) -> Iterator[Stock]:
        """Stocks with at least so many free GPUs, those with the least first."""
        self._settle()
        for index in range(bisect_left(self._rooms, (gpus,)), len(self._rooms)):
            yield self._stocks[self._rooms[index][2]]

    def most(self, amount: str) -> int:
        """The most that is free in one domain."""
        self._settle()
        if amount not in self._most:
            self._most[amount] = max((getattr(each, amount) for each in self._stocks.values()), default=0)
        return self._most[amount]

    def seats(self, gpus: int, domain: Domain, *, cpus_milli: int = 0) -> int:
        """More members that ask for so much (at least one GPU) than this do not fit in the domain."""
        return self._seats_for(gpus, cpus_milli).settled(self._stocks).get(domain, 0)

    def most_seats(self, gpus: int, *, cpus_milli: int = 0) -> int:
        """The most seats of one domain."""
        seats = self._seats_for(gpus, cpus_milli)
        by_domain = seats.settled(self._stocks)
        if seats.most is None:
            seats.most = max(by_domain.values(), default=0)
        return seats.most

    def _seats_for(self, gpus: int, cpus_milli: int) -> _Seats:
        self._settle()
        key = gpus, cpus_milli
        known = self._seats.get(key)
        if known is None:
            known = self._seats[key] = _Seats(gpus, cpus_milli, domains=self._stocks)
        return known

    def _settle(self) -> None:
        if not self.moved:
            return
        domains = {stock.domain for stock in self.moved}
        for domain in domains:
            stock = self._stocks.get(domain)
            self._list(domain, None if stock is None else (stock.gpus, stock.cpus_milli, domain))
        for seats in self._seats.values():
            seats.moved |= domains
        self._most.clear()
        self.moved.clear()

    def _list(self, domain: Domain, after: _Room | None) -> None:
        before = self._listed.pop(domain, None)
        if before is not None and before != after:
            del self._rooms[bisect_left(self._rooms, before)]
        if after is not None:
            self._listed[domain] = after
            if before != after:
                insort(self._rooms, after)
