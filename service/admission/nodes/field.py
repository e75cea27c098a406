"""Free amounts on the nodes that a filter allows, by topology domain, kept while they change.

A placement looks into buckets of nodes with equally many free GPUs instead of at every node, and
an explanation reads sums instead of adding them up. A node that changed is counted anew when its field is
read next: much is lent and taken back before anybody reads it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Mapping, Sequence

from service.admission.nodes.filters import Filter
from service.admission.nodes.rooms import Rooms
from service.admission.nodes.state import NodeState
from service.admission.nodes.topology import Domain
from service.admission.world import Pool
from service.domain.resources import Resources

#: Free CPUs, rank and id of a node.
Entry = tuple[int, int, int]

#: The bucket of nodes without devices, for roles without GPUs: they are looked at first.
NO_DEVICES = -1
_NO_BUCKET = -2


class Stock:
    """Nodes of one domain. `buckets`: free GPUs -> (free CPUs, rank, node id), sorted.

    For a role without GPUs the bucket is NO_DEVICES, or how many GPUs of the node are free.
    `held_back_*` is what is not held on nodes that are down or cordoned; `unhealthy_gpus` what is
    neither held nor usable on the other nodes.
    """

    __slots__ = (
        "buckets",
        "cpus_milli",
        "domain",
        "gpus",
        "held_back_cpus_milli",
        "held_back_gpus",
        "held_back_memory_mib",
        "memory_mib",
        "nodes",
        "unhealthy_gpus",
    )

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.buckets: dict[int, list[Entry]] = {}
        self.gpus = self.cpus_milli = self.memory_mib = 0
        self.held_back_gpus = self.held_back_cpus_milli = self.held_back_memory_mib = 0
        self.unhealthy_gpus = 0
        #: How many, whatever their state.
        self.nodes = 0

    def holds(self, need: Resources) -> bool:
        """Whether the sums suffice: a necessary condition, and a quick one."""
        return (
            need.gpus <= self.gpus
            and need.cpus_milli <= self.cpus_milli
            and need.memory_mib <= self.memory_mib
        )

    def seats(self, gpus: int, cpus_milli: int) -> int:
        """More members that each ask for so much (at least one GPU) than this do not fit."""
        return sum(
            bucket // gpus * (len(rows) - bisect_left(rows, (cpus_milli,)))
            for bucket, rows in self.buckets.items()
            if bucket >= gpus
        )


class Membership:
    """One node in one field: what it adds to its domain's stock, and how to take that back. `changed`: those
    of the field that are to be refreshed."""

    __slots__ = ("_added", "_entry", "bucket", "changed", "devices", "eligible", "field", "state", "stock")

    def __init__(self, field: Field, state: NodeState, stock: Stock, devices: tuple[int, ...]) -> None:
        self.field = field
        self.changed = field.changed
        self.state = state
        self.stock = stock
        #: Small GPU memory first, so that larger devices stay for those who ask for them.
        self.devices = devices
        self.eligible = state.same(frozenset(devices))
        #: Where it is in the stock: nowhere, if the node is down or cordoned.
        self.bucket = _NO_BUCKET
        self._entry = (0, 0, 0)
        self._added = (0, 0, 0, 0)
        self.enter()

    def enter(self) -> None:
        """Add what the node has now."""
        state, stock = self.state, self.stock
        self.field.note_moved(stock)
        gpus, not_held = state.count(self.eligible)
        cpus_milli, memory_mib = state.free_cpus_milli, state.free_memory_mib
        if not state.is_available:
            # The devices of a machine that is down are lost with it and come back with it.
            back = gpus if state.node.is_ready else not_held
            self._added = (back, cpus_milli, memory_mib, 0)
            stock.held_back_gpus += back
            stock.held_back_cpus_milli += cpus_milli
            stock.held_back_memory_mib += memory_mib
            return
        self.bucket = gpus if self.eligible else state.tier
        self._entry = (cpus_milli, state.rank, state.node.id)
        self._added = (gpus, cpus_milli, memory_mib, not_held - gpus)
        insort(stock.buckets.setdefault(self.bucket, []), self._entry)
        stock.gpus += gpus
        stock.cpus_milli += cpus_milli
        stock.memory_mib += memory_mib
        stock.unhealthy_gpus += not_held - gpus

    def refresh(self) -> None:
        """As `leave` and `enter`, of a node that is as available as it was."""
        state, stock = self.state, self.stock
        if not state.is_available:
            self.leave()
            self.enter()
            return
        gpus, not_held = state.count(self.eligible)
        bucket = gpus if self.eligible else state.tier
        before, after = self._added, (gpus, state.free_cpus_milli, state.free_memory_mib, not_held - gpus)
        if before == after and bucket == self.bucket:
            return
        self.field.note_moved(stock)
        if bucket != self.bucket or before[1] != after[1]:
            self._move_to(bucket, (after[1], *self._entry[1:]))
        stock.gpus += after[0] - before[0]
        stock.cpus_milli += after[1] - before[1]
        stock.memory_mib += after[2] - before[2]
        stock.unhealthy_gpus += after[3] - before[3]
        self._added = after

    def _move_to(self, bucket: int, entry: Entry) -> None:
        buckets = self.stock.buckets
        rows = buckets[self.bucket]
        del rows[bisect_left(rows, self._entry)]
        if not rows:
            del buckets[self.bucket]
        insort(buckets.setdefault(bucket, []), entry)
        self.bucket, self._entry = bucket, entry

    def leave(self) -> None:
        """Take back what `enter` added."""
        stock = self.stock
        self.field.note_moved(stock)
        gpus, cpus_milli, memory_mib, unhealthy = self._added
        if self.bucket == _NO_BUCKET:
            stock.held_back_gpus -= gpus
            stock.held_back_cpus_milli -= cpus_milli
            stock.held_back_memory_mib -= memory_mib
            return
        bucket = stock.buckets[self.bucket]
        del bucket[bisect_left(bucket, self._entry)]
        if not bucket:
            del stock.buckets[self.bucket]
        self.bucket = _NO_BUCKET
        stock.gpus -= gpus
        stock.cpus_milli -= cpus_milli
        stock.memory_mib -= memory_mib
        stock.unhealthy_gpus -= unhealthy


class Field:
    """Every node that one of `filters` allows. `grown` counts up whenever something became free,
    `shrunk` whenever something was taken for good: what did not fit does not fit now either while
    no `grown` of its fields has moved, and what fits still does while no `shrunk` has."""

    __slots__ = (
        "_inner",
        "_largest",
        "_rooms",
        "_stocks",
        "changed",
        "filters",
        "grown",
        "kinds",
        "level",
        "members",
        "pools",
        "shrunk",
        "text",
        "unavailable",
    )

    def __init__(self, filters: tuple[Filter, ...], level: str | None, pools: Mapping[int, Pool]) -> None:
        self.filters = filters
        #: Its filters in a short name: part of the keys of shared numbers.
        self.text = "|".join(each.text() for each in filters)
        self.pools = pools
        self.level = level
        self.grown = 0
        self.shrunk = 0
        self.members: dict[int, Membership] = {}
        #: By node, those that have changed since the field was read.
        self.changed: dict[int, Membership] = {}
        self._stocks: dict[Domain, Stock] = {}
        #: Names of nodes that are down or cordoned, by id.
        self.unavailable: dict[int, str] = {}
        self._rooms = Rooms(self._stocks)
        #: On how many nodes there are devices of a model with so much memory.
        self.kinds: Counter[tuple[str, int]] = Counter()
        self._largest: dict[str, int] = {}
        self._inner: dict[tuple[int | str, ...], list[Stock]] = {}

    @property
    def stocks(self) -> Mapping[Domain, Stock]:
        """As the nodes are now; good until the next of them changes."""
        if self.changed:
            self._settle()
        return self._stocks

    @property
    def rooms(self) -> Rooms:
        if self.changed:
            self._settle()
        return self._rooms

    def _settle(self) -> None:
        for membership in self.changed.values():
            membership.refresh()
        self.changed.clear()

    def note_moved(self, stock: Stock) -> None:
        self._rooms.moved.add(stock)

    def add(self, state: NodeState, domain: Domain) -> bool:
        """Take the node in if a filter allows it."""
        allowing = [each for each in self.filters if each.allows(state.node, self.pools)]
        eligible = frozenset().union(*(each.devices_of(state.kinds) for each in allowing))
        if not eligible and all(each.has_gpus for each in allowing):
            return False
        stock = self._stocks.get(domain)
        if stock is None:
            stock = self._stocks[domain] = Stock(domain)
            for length in range(1, len(domain) + 1):
                self._inner.setdefault(domain[:length], []).append(stock)
        devices = tuple(index for index in state.device_order if index in eligible)
        membership = Membership(self, state, stock, devices)
        self.members[state.node.id] = membership
        if not state.is_available:
            self.unavailable[state.node.id] = state.node.name
        state.memberships.append(membership)
        for kind in state.kinds:
            self.kinds[kind.model, kind.memory_mib] += 1
        self._largest.clear()
        stock.nodes += 1
        return True

    def remove(self, membership: Membership) -> None:
        """Let a node go, or one whose state is about to be replaced."""
        membership.leave()
        node_id, stock = membership.state.node.id, membership.stock
        stock.nodes -= 1
        if not stock.nodes:
            self._forget(stock)
        for kind in membership.state.kinds:
            self.kinds[kind.model, kind.memory_mib] -= 1
        self._largest.clear()
        del self.members[node_id]
        self.changed.pop(node_id, None)
        self.unavailable.pop(node_id, None)

    def _forget(self, stock: Stock) -> None:
        del self._stocks[stock.domain]
        for length in range(1, len(stock.domain) + 1):
            outer = stock.domain[:length]
            self._inner[outer].remove(stock)
            if not self._inner[outer]:
                del self._inner[outer]

    def largest(self, amount: str) -> int:
        """The most that any one node has, whatever is held there and whatever its state."""
        if amount not in self._largest:
            nodes = self.members.values()
            all_amounts = (
                len(each.eligible) if amount == "gpus" else getattr(each.state.node, amount) for each in nodes
            )
            self._largest[amount] = max(all_amounts, default=0)
        return self._largest[amount]

    def within(self, domain: Domain) -> Sequence[Stock]:
        """Stocks of the domains that lie in this one of a wider level, or are it."""
        if self.changed:
            self._settle()
        return self._inner.get(domain, ())

    def gpus(self) -> int:
        return sum(stock.gpus for stock in self.stocks.values())

    def cpus_milli(self) -> int:
        return sum(stock.cpus_milli for stock in self.stocks.values())

    def memory_mib(self) -> int:
        return sum(stock.memory_mib for stock in self.stocks.values())
