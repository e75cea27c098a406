"""Whose turn it is: down the tree of cohorts, always to the child that holds least for its weight.

Of the children of a cohort, those go first whose next row stays within what they have of their own; among
these, and among those that must borrow, the one with the lowest share; among equals the one whose next row
is best by priority and age. Nothing here knows a name.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from service.admission.line import Key
from service.admission.query import ShapeQuery
from service.admission.quota import exceeded_models
from service.admission.quota_nodes import QuotaNode
from service.admission.quota_tree import QuotaTree
from service.admission.shares import share_of

#: What counts besides what is held now, by queue and resource: decayed usage.
Extra = Mapping[int, Mapping[str, float]]
_NOTHING: Mapping[str, float] = {}


class Runner(Protocol):
    """The next row of a queue."""

    @property
    def key(self) -> Key: ...

    @property
    def may_borrow(self) -> bool: ...


class Rank(NamedTuple):
    """Lowest first. Keys are unique."""

    borrows: bool
    share: float
    key: Key


class _Seat:
    """A queue, a cohort or (without a node) the root of all. `below`: those of its children that were ever
    looked at; `order`: the ranks of those that have a row to offer, and `children` whose they are. `runner`:
    the best row below it."""

    __slots__ = ("below", "children", "extra", "node", "order", "parent", "query", "rank", "runner")

    def __init__(self, node: QuotaNode | None, parent: _Seat | None) -> None:
        self.node = node
        self.parent = parent
        self.extra: dict[str, float] = {}
        self.below: list[_Seat] = []
        self.order: list[Rank] = []
        self.children: dict[Key, _Seat] = {}
        self.rank: Rank | None = None
        self.runner: Runner | None = None
        self.query: ShapeQuery | None = None

    def take_best(self) -> None:
        best = self.children[self.order[0].key] if self.order else None
        self.runner, self.query = (best.runner, best.query) if best is not None else (None, None)


class Tournament:
    """`query_of` says what a row asks for."""

    def __init__(self, tree: QuotaTree, query_of: Callable[[Runner], ShapeQuery], extra: Extra) -> None:
        self._tree = tree
        self._query_of = query_of
        self._root = _Seat(None, None)
        self._seats: dict[QuotaNode, _Seat] = {}
        for queue_id, amounts in sorted(extra.items()):
            node = tree.queues.get(queue_id)
            for each in node.path() if node is not None else ():
                self._add_extra(self._seat(each), amounts)

    def start(self, runners: Mapping[int, Runner]) -> None:
        """The first rows of these queues, by queue; of others there are none."""
        for queue_id, runner in runners.items():
            seat = self._seat(self._tree.queues[queue_id])
            seat.runner, seat.query = runner, self._query_of(runner)
        self._settle(self._root)

    def enter(self, queue_id: int, runner: Runner | None) -> None:
        """The queue's next row is this one, or it has none; what the queue holds may have changed."""
        seat = self._seat(self._tree.queues[queue_id])
        seat.runner, seat.query = runner, None if runner is None else self._query_of(runner)
        while (parent := seat.parent) is not None:
            self._place(seat, parent)
            parent.take_best()
            seat = parent

    def first(self) -> int | None:
        """The queue whose turn it is."""
        seat = self._root
        while seat.order:
            seat = seat.children[seat.order[0].key]
        return None if seat.node is None else seat.node.id

    @property
    def runner(self) -> Runner | None:
        """The row that the first queue has entered."""
        return self._root.runner

    def turns(self, queue_id: int, most: int) -> int:
        """How many units of its next row, of `most`, the first queue may take before it is another's
        turn."""
        path = [seat for seat in self._path(queue_id) if seat.parent and len(seat.parent.order) > 1]
        low, high, middle = 1, most, 2
        while low < high:
            if all(self._is_first_after(seat, middle - 1) for seat in path):
                low = middle
            else:
                high = middle - 1
            middle = (low + high + 1) // 2
        return low

    def _path(self, queue_id: int) -> list[_Seat]:
        found: list[_Seat] = []
        seat: _Seat | None = self._seats[self._tree.queues[queue_id]]
        while seat is not None:
            found.append(seat)
            seat = seat.parent
        return found

    def _is_first_after(self, seat: _Seat, taken: int) -> bool:
        assert seat.parent is not None
        rank = self._rank(seat, taken)
        return rank is not None and rank < seat.parent.order[1]

    def _settle(self, seat: _Seat) -> None:
        """Rank all that is below the seat, from the queues up."""
        for child in seat.below:
            if child.below:
                self._settle(child)
            child.rank = self._rank(child)
        if seat.below:
            seat.children = {child.rank.key: child for child in seat.below if child.rank is not None}
            seat.order = sorted(child.rank for child in seat.children.values() if child.rank is not None)
            seat.take_best()

    def _place(self, seat: _Seat, parent: _Seat) -> None:
        if seat.rank is not None:
            del parent.order[bisect_left(parent.order, seat.rank)]
            del parent.children[seat.rank.key]
        seat.rank = self._rank(seat)
        if seat.rank is not None:
            insort(parent.order, seat.rank)
            parent.children[seat.rank.key] = seat

    def _rank(self, seat: _Seat, taken: int = 0) -> Rank | None:
        """As if so many units more were taken."""
        node, runner, query = seat.node, seat.runner, seat.query
        if node is None or runner is None or query is None:
            return None
        extra: Mapping[str, float] = seat.extra
        if taken:
            used = {r: extra.get(r, 0.0) + taken * query.most.get(r, 0) for r in {*extra, *query.most}}
            extra = used
        borrows = (node.is_queue and runner.may_borrow) or must_borrow(node, query, taken)
        share = share_of(node, self._tree.capacity, extra) if extra else self._tree.share_of(node)
        return Rank(borrows, share, runner.key)

    def _seat(self, node: QuotaNode) -> _Seat:
        seat = self._seats.get(node)
        if seat is None:
            parent = self._root if node.parent is None else self._seat(node.parent)
            seat = self._seats[node] = _Seat(node, parent)
            parent.below.append(seat)
        return seat

    def _add_extra(self, seat: _Seat, amounts: Mapping[str, float]) -> None:
        for resource, amount in amounts.items():
            seat.extra[resource] = seat.extra.get(resource, 0.0) + amount


def must_borrow(node: QuotaNode, query: ShapeQuery, taken: int = 0) -> bool:
    """Whether one unit more (after `taken` of them) is more than the node has of its own, whichever
    models it takes. A root borrows from nobody."""
    if node.parent is None:
        return False
    short = [
        resource
        for resource, need in query.most.items()
        if need and node.counts(resource) and need > _own_room(node, resource) - taken * need
    ]
    if not short or any(resource not in query.models for resource in short):
        return bool(short)
    needs = {model: query.most[model] for model in query.models}
    caps = {
        model: max(0, _own_room(node, model) - taken * need)
        for model, need in needs.items()
        if need and node.counts(model)
    }
    return bool(exceeded_models(query, caps))


def _own_room(node: QuotaNode, resource: str) -> int:
    return node.subtree.get(resource, 0) - node.usage.get(resource, 0)
