"""How much the domains of a field have room for, kept while they change: which of them could hold a role
at all is known before anything is packed there."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from service.admission.topology import Domain

if TYPE_CHECKING:
    from service.admission.field import Stock

#: Free GPUs and CPUs of a domain.
_Room = tuple[int, int, Domain]


class Rooms:
    """Of the stocks of one field. `moved`: those that have changed since anything was asked."""

    __slots__ = ("_listed", "_most", "_rooms", "_seats", "_stocks", "moved")

    def __init__(self, stocks: Mapping[Domain, Stock]) -> None:
        self._stocks = stocks
        self.moved: set[Stock] = set()
        self._rooms: list[_Room] = []
        self._listed: dict[Domain, _Room] = {}
        #: Members by domain, by how many GPUs each of them uses.
        self._seats: dict[int, dict[Domain, int]] = {}
        #: The most of any one domain, by amount or by GPUs of a member; worked out when it is asked for.
        self._most: dict[str | int, int] = {}

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

    def seats(self, gpus: int, domain: Domain) -> int:
        """More members with so many GPUs each (at least one) than this do not fit in the domain."""
        return self._all_seats(gpus).get(domain, 0)

    def most_seats(self, gpus: int) -> int:
        """The most seats of one domain."""
        seats = self._all_seats(gpus)
        if gpus not in self._most:
            self._most[gpus] = max(seats.values(), default=0)
        return self._most[gpus]

    def _all_seats(self, gpus: int) -> Mapping[Domain, int]:
        self._settle()
        known = self._seats.get(gpus)
        if known is None:
            known = {domain: stock.seats(gpus) for domain, stock in self._stocks.items()}
            self._seats[gpus] = known
        return known

    def _settle(self) -> None:
        if not self.moved:
            return
        for domain in {stock.domain for stock in self.moved}:
            stock = self._stocks.get(domain)
            self._list(domain, None if stock is None else (stock.gpus, stock.cpus_milli, domain))
            for gpus, seats in self._seats.items():
                seats[domain] = 0 if stock is None else stock.seats(gpus)
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
