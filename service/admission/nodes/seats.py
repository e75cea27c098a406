"""How many seats of one kind there would be if more were free: told from numbers, before any place is
imagined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from service.admission.held.holds import Taken
from service.admission.nodes.field import Field, Membership, Stock
from service.admission.nodes.query import RoleQuery, ShapeQuery
from service.admission.nodes.topology import Domain


def is_plain(query: ShapeQuery) -> bool:
    """Whether seats alone decide: one role that takes one model, all of it in one domain."""
    return len(query.roles) == 1 and len(query.roles[0].models) == 1 and query.roles[0].slices is None


def seats_on(role: RoleQuery, *, gpus: int, cpus_milli: int, memory_mib: int) -> int:
    """On one node with so much free, no more than the role has members."""
    requests, seats = role.requests, role.count
    if requests.gpus:
        seats = min(seats, gpus // requests.gpus)
    if requests.cpus_milli:
        seats = min(seats, cpus_milli // requests.cpus_milli)
    if requests.memory_mib:
        seats = min(seats, memory_mib // requests.memory_mib)
    return max(0, seats)


def seats_now(role: RoleQuery, membership: Membership) -> int:
    state = membership.state
    gpus, _ = state.count(membership.eligible)
    if gpus < role.requests.gpus:
        return 0
    return seats_on(role, gpus=gpus, cpus_milli=state.free_cpus_milli, memory_mib=state.free_memory_mib)


def add_seats(
    extra: Counter[Domain], node_id: int, gone: Iterable[Taken], *, fields: tuple[Field, ...], gpus: int
) -> None:
    """Seats of so many GPUs that there are more on the node when these are gone, at most, by domain."""
    for field in fields:
        membership = field.members.get(node_id)
        if membership is not None and membership.state.is_available:
            now, _ = membership.state.count(membership.eligible)
            more = _free_without(membership, gone) // gpus - now // gpus
            # Also where it is nothing: they may hold CPUs or memory that keep GPUs from being used.
            extra[membership.stock.domain] += max(0, more)


def seats_in(domain: Domain, fields: Iterable[Field], gpus: int) -> int:
    """How many members with so many GPUs each may sit there now, at most."""
    return sum(field.rooms.seats(gpus, domain) for field in fields)


def most_seats(fields: Sequence[Field], gpus: int, extra: Mapping[Domain, int]) -> int:
    """The most in one of these domains, if it had so many seats more."""
    return max((more + seats_in(domain, fields, gpus) for domain, more in extra.items()), default=0)


def _free_without(membership: Membership, gone: Iterable[Taken]) -> int:
    """Free GPUs of the node if these were gone."""
    state = membership.state
    free, _ = state.count(membership.eligible)
    left: dict[int, int] = {}
    for taken in gone:
        for device in taken.devices:
            left[device] = left.get(device, 0) + 1
    for device, less in left.items():
        held = state.held.get(device, 0)
        free += 0 < held <= less and device in membership.eligible and device in state.usable
    return free


class ImaginedNode:
    """One node of a field, as if more of it were free, or taken. `seats`: as it is imagined now."""

    __slots__ = ("_cpus_milli", "_free", "_held", "_memory_mib", "_role", "membership", "seats")

    def __init__(self, role: RoleQuery, membership: Membership) -> None:
        state = membership.state
        self._role = role
        self.membership = membership
        self._held = dict(state.held)
        self._free, _ = state.count(membership.eligible)
        self._cpus_milli = state.node.cpus_milli - state.held_cpus_milli
        self._memory_mib = state.node.memory_mib - state.held_memory_mib
        self.seats = seats_now(role, membership)

    def give(self, taken: Taken) -> None:
        """What somebody holds is free."""
        eligible, usable = self.membership.eligible, self.membership.state.usable
        for device in taken.devices:
            left = self._held[device] = self._held.get(device, 0) - 1
            self._free += left == 0 and device in eligible and device in usable
        self._add(taken.cpus_milli, taken.memory_mib)

    def take(self, those: Iterable[Taken]) -> None:
        """Somebody holds it besides."""
        held, eligible, usable = self._held, self.membership.eligible, self.membership.state.usable
        cpus_milli = memory_mib = 0
        for taken in those:
            for device in taken.devices:
                before = held.get(device, 0)
                held[device] = before + 1
                self._free -= before == 0 and device in eligible and device in usable
            cpus_milli -= taken.cpus_milli
            memory_mib -= taken.memory_mib
        self._add(cpus_milli, memory_mib)

    def _add(self, cpus_milli: int, memory_mib: int) -> None:
        self._cpus_milli += cpus_milli
        self._memory_mib += memory_mib
        self.seats = seats_on(
            self._role, gpus=self._free, cpus_milli=self._cpus_milli, memory_mib=self._memory_mib
        )


class _Tally:
    """Seats of one domain. `most`: more there are not, by GPUs alone; `free`: by node of which something was
    given, so many GPUs are free at most. `given`: what counts only there so far, by node, and `due` those of
    these nodes that may have a seat. Exactly: `imagined` on nodes that are imagined, and `rest` on all
    others."""

    __slots__ = ("due", "free", "given", "imagined", "is_exact", "most", "rest", "stock")

    def __init__(self, stock: Stock, most: int) -> None:
        self.stock = stock
        self.most = most
        self.free: dict[int, int] = {}
        self.given: dict[int, list[Taken]] = {}
        self.due: set[int] = set()
        self.imagined = 0
        self.rest = 0
        self.is_exact = False


class Sweep:
    """Counts the seats of a plain query by domain while more and more becomes free."""

    def __init__(self, query: ShapeQuery) -> None:
        (self._role,) = query.roles
        self._gpus = self._role.requests.gpus
        self._field: Field = self._role.fields[0]
        self._nodes: dict[int, ImaginedNode] = {}
        #: What is held besides, by domain and node, until the nodes are imagined.
        self._occupied: dict[Domain, dict[int, list[Taken]]] = {}
        self._tallies: dict[Domain, _Tally] = {}
        for domain, stock in self._field.stocks.items():
            self._tallies[domain] = _Tally(stock, self._most(stock))

    def occupy(self, rests: Iterable[Taken]) -> None:
        """Before anything is given."""
        for taken in rests:
            membership = self._field.members.get(taken.node_id)
            if membership is not None and membership.state.is_available:
                nodes = self._occupied.setdefault(membership.stock.domain, {})
                nodes.setdefault(taken.node_id, []).append(taken)

    def with_room(self) -> list[Domain]:
        """Those that have room for all members as things are imagined now."""
        return [domain for domain, tally in self._tallies.items() if self._has_room(tally)]

    def give(self, unit: Iterable[Taken]) -> list[Domain]:
        """What one unit holds is free. Returns the domains that have room since then."""
        given: dict[Domain, _Tally] = {}
        for taken in unit:
            membership = self._field.members.get(taken.node_id)
            if membership is not None and membership.state.is_available:
                tally = given[membership.stock.domain] = self._tallies[membership.stock.domain]
                self._note(tally, membership, taken)
        return [domain for domain, tally in given.items() if self._has_room(tally)]

    def nodes_with_seats(self, domains: Collection[Domain]) -> set[int]:
        """Of those in these domains that are imagined otherwise than they are: all on which a member could
        sit, as they are or as they are imagined."""
        return {
            node_id
            for node_id, node in self._nodes.items()
            if node.membership.stock.domain in domains and (node.seats or self.has_seats_now(node_id))
        }

    def has_seats_now(self, node_id: int) -> bool:
        membership = self._field.members.get(node_id)
        is_there = membership is not None and membership.state.is_available
        return membership is not None and is_there and seats_now(self._role, membership) > 0

    def _note(self, tally: _Tally, membership: Membership, taken: Taken) -> None:
        node_id, gpus = taken.node_id, self._gpus
        tally.given.setdefault(node_id, []).append(taken)
        if not gpus:
            tally.most += self._role.count
            tally.due.add(node_id)
            return
        before = tally.free.get(node_id)
        if before is None:
            before, _ = membership.state.count(membership.eligible)
        after = tally.free[node_id] = before + len(taken.devices)
        tally.most += after // gpus - before // gpus
        if after >= gpus:
            tally.due.add(node_id)

    def _has_room(self, tally: _Tally) -> bool:
        if tally.most < self._role.count:
            return False
        if not tally.is_exact:
            for node_id in self._occupied.get(tally.stock.domain, ()):
                # On all others nobody sits either way, as long as nothing is given there.
                if self.has_seats_now(node_id):
                    tally.imagined += self._imagine(node_id).seats
            tally.is_exact, tally.rest = True, self._exact_rest(tally.stock)
        for node_id in tally.due:
            node = self._nodes.get(node_id)
            if node is None:
                node = self._imagine(node_id)
                tally.rest -= node.seats
                tally.imagined += node.seats
            before = node.seats
            for taken in tally.given.pop(node_id):
                node.give(taken)
            tally.imagined += node.seats - before
        tally.due.clear()
        return tally.imagined + tally.rest >= self._role.count

    def _imagine(self, node_id: int) -> ImaginedNode:
        """With what is held besides."""
        membership = self._field.members[node_id]
        node = self._nodes[node_id] = ImaginedNode(self._role, membership)
        if others := self._occupied.get(membership.stock.domain, {}).get(node_id):
            node.take(others)
        return node

    def _exact_rest(self, stock: Stock) -> int:
        least = self._gpus
        return sum(
            seats_now(self._role, self._field.members[node_id])
            for bucket, rows in stock.buckets.items()
            if bucket >= least or not least
            for _, _, node_id in rows
            if node_id not in self._nodes
        )

    def _most(self, stock: Stock) -> int:
        if not self._gpus:
            return sum(len(rows) for rows in stock.buckets.values()) * self._role.count
        return self._field.rooms.seats(self._gpus, stock.domain)
