"""Whose turn it is: down the tree of cohorts, always to the child that holds least for its weight.

Of the children of a cohort, those go first whose next row stays within what they have of their own; among
these, and among those that must borrow, the one with the lowest share; among equals the one whose next row
is best by priority and age. Nothing here knows a name.

What the next row of a queue is, is asked only when its turn may have come. Till then it stands where the
best row would that it could have: whoever stands first and is what it seemed to be is first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol

from service.admission.line import Key
from service.admission.query import ShapeQuery
from service.admission.quota import exceeded_models
from service.admission.quota_nodes import QuotaNode
from service.admission.quota_tree import QuotaTree
from service.admission.shares import share_of

#: What counts besides what is held now, by queue and resource: decayed usage.
Extra = Mapping[int, Mapping[str, float]]


class Runner(Protocol):
    """The next row of a queue."""

    @property
    def key(self) -> Key: ...

    @property
    def may_borrow(self) -> bool: ...


class Guess(NamedTuple):
    """What is known of a queue's next row before it is asked for: it is not before `key`, and needs at least
    so much of each resource."""

    key: Key
    needs: Mapping[str, int]


class Rank(NamedTuple):
    """Lowest first. Keys are unique."""

    borrows: bool
    share: float
    key: Key


class _Seat:
    """A queue, a cohort or (without a node) the root of all. `order`: the ranks of its children that may have
    a row to offer, none of them higher than it is, and `children` whose they are. `runner`: of a queue, its
    next row when it was last asked. `asked`: for which row, and with how much held, a rank was found last.
    `least`: of a cohort, no row below it comes before this key."""

    __slots__ = ("asked", "children", "extra", "least", "node", "order", "parent", "query", "rank", "runner")

    def __init__(self, node: QuotaNode | None, parent: _Seat | None) -> None:
        self.node = node
        self.parent = parent
        self.extra: dict[str, float] = {}
        self.order: list[Rank] = []
        self.children: dict[Key, _Seat] = {}
        self.rank: Rank | None = None
        self.asked: tuple[Runner, int, Rank] | None = None
        self.least: Key | None = None
        self.runner: Runner | None = None
        self.query: ShapeQuery | None = None

    def above(self) -> Iterator[_Seat]:
        """Itself and all above it but the root."""
        seat = self
        while seat.parent is not None:
            yield seat
            seat = seat.parent


class Tournament:
    """`next_of` gives the next row of a queue; within a cycle a later one is never better. `changes_of`
    counts what may change it, besides what is held in the queue's tree. `query_of` says what a row asks."""

    def __init__(
        self,
        tree: QuotaTree,
        *,
        next_of: Callable[[int], Runner | None],
        changes_of: Callable[[], int],
        query_of: Callable[[Runner], ShapeQuery],
        extra: Extra,
    ) -> None:
        self._tree = tree
        self._next_of = next_of
        self._changes_of = changes_of
        self._query_of = query_of
        self._root = _Seat(None, None)
        self._seats: dict[QuotaNode, _Seat] = {}
        #: Which queue was first below a cohort, while nothing has changed that decides it.
        self._firsts: dict[_Seat, tuple[int, int, _Seat]] = {}
        for queue_id, amounts in sorted(extra.items()):
            node = tree.queues.get(queue_id)
            for each in node.path() if node is not None else ():
                self._add_extra(self._seat(each), amounts)

    def start(self, guesses: Mapping[int, Guess]) -> None:
        """These queues may have a row to offer."""
        for queue_id, guess in guesses.items():
            node = self._tree.queues[queue_id]
            seat = self._seat(node)
            _append(seat, Rank(_borrows_at_least(node, guess.needs), self._share(seat), guess.key))
        # Who is below comes behind who is above.
        for seat in reversed(self._seats.values()):
            if seat.order:
                seat.order.sort()
                seat.least = min(rank.key for rank in seat.order)
                _append(seat, Rank(False, self._share(seat), seat.least))
        self._root.order.sort()

    def first(self) -> int | None:
        """The queue whose turn it is."""
        found = self._first_below(self._root)
        return None if found is None or found[1].node is None else found[1].node.id

    def move(self, queue_id: int) -> None:
        """What the queue holds may have changed, and its next row."""
        row = self._seat(self._tree.queues[queue_id])
        for seat in row.above():
            self._firsts.pop(seat, None)
            self._place(seat, self._ask(seat) if seat is row else self._guess_of(seat))

    def turns(self, queue_id: int, most: int) -> int:
        """How many units of its next row, of `most`, the first queue may take before it is another's turn."""
        row = self._seat(self._tree.queues[queue_id])
        rivals = [
            (seat, rival[0])
            for seat in row.above()
            if seat.parent is not None and (rival := self._first_below(seat.parent, besides=seat))
        ]
        low, high, middle = 1, most, 2
        while low < high:
            if all(self._rank_after(seat, row, middle - 1) < rival for seat, rival in rivals):
                low = middle
            else:
                high = middle - 1
            middle = (low + high + 1) // 2
        return low

    def _first_below(self, seat: _Seat, besides: _Seat | None = None) -> tuple[Rank, _Seat] | None:
        """The queue that is first of those below the seat, asked anew, and the rank of the child that it is
        in; `besides`: of its other children."""
        best: tuple[Rank, _Seat] | None = None
        at = 0
        while at < len(seat.order) and (best is None or seat.order[at] < best[0]):
            child = seat.children[seat.order[at].key]
            if child is besides:
                at += 1
            elif child.least is None:
                before, after = child.rank, self._ask(child)
                if after == before and after is not None:
                    best = after, child
                else:
                    at = min(at, self._place(child, after))
            elif (found := self._first_in(child)) is None:
                self._place(child, None)
            else:
                rank = self._rank(child, found)
                if best is None or rank < best[0]:
                    best = rank, found
                at += 1
        return best

    def _first_in(self, cohort: _Seat) -> _Seat | None:
        """As it was found before, if nothing has changed."""
        assert cohort.node is not None
        revision, changes = cohort.node.root.revision, self._changes_of()
        known = self._firsts.get(cohort)
        if known is not None and known[:2] == (revision, changes):
            return known[2]
        found = self._first_below(cohort)
        if found is None:
            return None
        self._firsts[cohort] = revision, changes, found[1]
        return found[1]

    def _ask(self, seat: _Seat) -> Rank | None:
        """The rank of a queue with its next row."""
        assert seat.node is not None
        seat.runner = self._next_of(seat.node.id)
        if seat.runner is None:
            return None
        seat.query = self._query_of(seat.runner)
        return self._rank(seat, seat)

    def _guess_of(self, cohort: _Seat) -> Rank | None:
        """The lowest rank that it may have."""
        if not cohort.order or cohort.least is None:
            return None
        return Rank(False, self._share(cohort), cohort.least)

    def _place(self, seat: _Seat, rank: Rank | None) -> int:
        """Give it another rank, or none. Returns at which place it stands, or would stand next."""
        assert seat.parent is not None
        order, children = seat.parent.order, seat.parent.children
        at = len(order)
        if seat.rank is not None:
            at = bisect_left(order, seat.rank)
            del order[at], children[seat.rank.key]
        seat.rank = rank
        if rank is not None:
            at = bisect_left(order, rank)
            order.insert(at, rank)
            children[rank.key] = seat
        return at

    def _rank(self, seat: _Seat, row: _Seat) -> Rank:
        """Of a queue or cohort with the next row of a queue."""
        assert seat.node is not None
        assert row.runner is not None
        known, revision = seat.asked, seat.node.revision
        if known is not None and known[1] == revision and known[0] == row.runner:
            return known[2]
        rank = self._rank_after(seat, row, 0)
        seat.asked = row.runner, revision, rank
        return rank

    def _rank_after(self, seat: _Seat, row: _Seat, taken: int) -> Rank:
        """As if so many units of the row were taken."""
        node, runner, query = seat.node, row.runner, row.query
        assert node is not None
        assert runner is not None
        assert query is not None
        borrows = (node.is_queue and runner.may_borrow) or must_borrow(node, query, taken)
        return Rank(borrows, self._share(seat, query, taken), runner.key)

    def _share(self, seat: _Seat, query: ShapeQuery | None = None, taken: int = 0) -> float:
        assert seat.node is not None
        extra: Mapping[str, float] = seat.extra
        if taken and query is not None:
            extra = {r: extra.get(r, 0.0) + taken * query.most.get(r, 0) for r in {*extra, *query.most}}
        return share_of(seat.node, self._tree.capacity, extra) if extra else self._tree.share_of(seat.node)

    def _seat(self, node: QuotaNode) -> _Seat:
        seat = self._seats.get(node)
        if seat is None:
            parent = self._root if node.parent is None else self._seat(node.parent)
            seat = self._seats[node] = _Seat(node, parent)
        return seat

    def _add_extra(self, seat: _Seat, amounts: Mapping[str, float]) -> None:
        for resource, amount in amounts.items():
            seat.extra[resource] = seat.extra.get(resource, 0.0) + amount


def _append(seat: _Seat, rank: Rank) -> None:
    """Its parent's order is to be sorted yet."""
    assert seat.parent is not None
    seat.rank = rank
    seat.parent.order.append(rank)
    seat.parent.children[rank.key] = seat


def _borrows_at_least(node: QuotaNode, needs: Mapping[str, int]) -> bool:
    if node.parent is None:
        return False
    return any(node.counts(name) and need > _own_room(node, name) for name, need in needs.items())


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
