"""Whose turn it is: down the tree of cohorts, always to the child that holds least for its weight.

Of the children of a cohort, those go first whose next row stays within what they have of their own; among
these, and among those that must borrow, the one with the lowest share; among equals the one whose next row
is best by priority and age. Nothing here knows a name.

What the next row of a queue is, is asked only when its turn may have come. Till then it stands where the
best row would that it could have: whoever stands first and is what it seemed to be is first.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Protocol

from service.admission.nodes.query import ShapeQuery
from service.admission.quota.book import exceeded_models
from service.admission.quota.nodes import QuotaNode
from service.admission.quota.shares import share_of
from service.admission.quota.tree import QuotaTree
from service.admission.waiting.front import Guess
from service.admission.waiting.line import Key

#: What counts besides what is held now, by queue and resource: decayed usage.
Extra = Mapping[int, Mapping[str, float]]


_NOTHING: Mapping[str, float] = {}


class Runner(Protocol):
    """The next row of a queue."""

    @property
    def key(self) -> Key: ...

    @property
    def may_borrow(self) -> bool: ...


#: Whether it must borrow, its share, and the key of its row, which is unique: the lowest is first. A plain
#: tuple, for several are made for each admission.
Rank = tuple[bool, float, Key]


class _Seat:
    """A queue, a cohort or (without a node) the root of all. `order`: the ranks of its children that may have
    a row to offer, none of them higher than it is, and `children` whose they are; `unasked`: those of queues
    that nobody has asked yet. `runner`: of a queue, its next row when it was last asked. `asked`: for which
    row, and with how much held, a rank was found last. `least`: of a cohort, no row below it comes before
    this key; `first`: the queue below it whose row its rank is that of. `sure`: what decides that rank, as it
    was when it was found; `stood`: of a queue, the part of it that is its own."""

    __slots__ = (
        "asked",
        "children",
        "extra",
        "first",
        "is_swept",
        "least",
        "node",
        "order",
        "parent",
        "query",
        "rank",
        "runner",
        "stood",
        "sure",
        "unasked",
    )

    def __init__(self, node: QuotaNode | None, parent: _Seat | None) -> None:
        self.node = node
        self.parent = parent
        self.extra: Mapping[str, float] = _NOTHING
        if node is None or not node.is_queue:
            self.order: list[Rank] = []
            self.children: dict[Key, _Seat] = {}
            self.unasked: dict[Key, QuotaNode] = {}
            self.is_swept = False
        self.rank: Rank | None = None
        self.asked: tuple[Runner, int, Rank] | None = None
        self.sure: tuple[int, int] | None = None
        self.stood: tuple[int, int] | None = None
        self.least: Key | None = None
        self.first: _Seat | None = None
        self.runner: Runner | None = None
        self.query: ShapeQuery | None = None

    def above(self) -> Iterator[_Seat]:
        """Itself and all above it but the root."""
        seat = self
        while seat.parent is not None:
            yield seat
            seat = seat.parent


class Tournament:
    """`next_of` gives the next row of a queue; within a cycle a later one is never better. `is_next` says
    that the one which it gave is it still, if nothing has changed but what is held in the tree. `changes_of`
    counts what may change it besides that. `query_of` says what a row asks. `is_over` says of a cohort that
    there is nothing left for its queues, or hardly any: `offering` says who is none of those."""

    def __init__(
        self,
        tree: QuotaTree,
        *,
        next_of: Callable[[int], Runner | None],
        is_next: Callable[[int], bool],
        changes_of: Callable[[], int],
        query_of: Callable[[Runner], ShapeQuery],
        is_over: Callable[[QuotaNode], bool],
        offering: Callable[[Collection[int]], set[int]],
        extra: Extra,
    ) -> None:
        self._tree = tree
        self._next_of = next_of
        self._is_next = is_next
        self._changes_of = changes_of
        self._query_of = query_of
        self._is_over = is_over
        self._offering = offering
        self._root = _Seat(None, None)
        self._seats: dict[QuotaNode, _Seat] = {}
        #: How much had changed when somebody was asked last.
        self._changes = 0
        self._guesses: Mapping[int, Guess] = {}
        #: By root, cohorts that stand where the row does that was found for them, and queues that stand back
        #: for a row that has to borrow. If that row is none any more, another one may come earlier.
        self._found: dict[QuotaNode, list[_Seat]] = {}
        for queue_id, amounts in sorted(extra.items()):
            node = tree.queues.get(queue_id)
            for each in node.path() if node is not None else ():
                self._add_extra(self._seat(each), amounts)

    def start(self, guesses: Mapping[int, Guess], known: dict[int, tuple[int, Guess, Rank]]) -> None:
        """These queues may have a row to offer. `known`: a memo of the lowest rank of a queue by a guess,
        with the revision of what it holds."""
        self._guesses = guesses
        for queue_id, guess in guesses.items():
            node = self._tree.queues[queue_id]
            above = self._above(node)
            above.order.append(self._lowest_rank(node, guess, known))
            above.unasked[guess.key] = node
        # Who is below comes behind who is above.
        for seat in reversed(self._seats.values()):
            if not _node_of(seat).is_queue and seat.order:
                seat.order.sort()
                seat.least = min(rank[2] for rank in seat.order)
                _append(seat, (False, self._share(seat), seat.least))
        self._root.order.sort()

    def _lowest_rank(self, node: QuotaNode, guess: Guess, ranks: dict[int, tuple[int, Guess, Rank]]) -> Rank:
        seat = self._seats.get(node)
        if seat is not None:
            return _borrows_at_least(node, guess.needs), self._share(seat), guess.key
        known = ranks.get(node.id)
        if known is None or known[0] != node.revision or known[1] is not guess:
            rank = _borrows_at_least(node, guess.needs), self._tree.share_of(node), guess.key
            known = ranks[node.id] = node.revision, guess, rank
        return known[2]

    def first(self) -> int | None:
        """The queue whose turn it is."""
        self._note_changes()
        found = self._first_below(self._root)
        return None if found is None else _node_of(found.first or found).id

    def move(self, queue_id: int) -> None:
        """What the queue holds may have changed, and its next row: that is asked when its turn may have
        come."""
        node = self._tree.queues[queue_id]
        row, above = self._seat(node), self._above(node)
        assert row.rank is not None
        guess = (_borrows_at_least(node, self._guesses[queue_id].needs), self._share(row), row.rank[2])
        self._place(row, None)
        insort(above.order, guess)
        above.unasked[guess[2]] = node
        self._doubt(node.root)

    def end(self) -> None:
        """Nobody's turn comes any more. Seats let go of each other, and so are gone when the last one is: the
        collector does not have to find them, among all that a World keeps."""
        self._found.clear()
        for seat in self._seats.values():
            seat.parent = seat.first = None

    def _note_changes(self) -> None:
        changes = self._changes_of()
        if changes != self._changes:
            self._changes = changes
            for root in tuple(self._found):
                self._doubt(root)

    def _doubt(self, root: QuotaNode) -> None:
        """Rows that were found in this tree may be none any more. Cohorts come before those that they are
        in."""
        for seat in self._found.pop(root, ()):
            self._place(seat, self._guess_of(seat))
            seat.sure = seat.stood = None

    def turns(self, queue_id: int, most: int) -> int:
        """How many units of its next row, of `most`, the first queue may take before it is another's turn."""
        row = self._seat(self._tree.queues[queue_id])
        self._note_changes()
        rivals = [
            (seat, rival.rank)
            for seat in row.above()
            if seat.parent is not None
            and (rival := self._first_below(seat.parent, besides=seat)) is not None
            and rival.rank is not None
        ]
        low, high, middle = 1, most, 2
        while low < high:
            if all(self._rank_after(seat, row, middle - 1) < rival for seat, rival in rivals):
                low = middle
            else:
                high = middle - 1
            middle = (low + high + 1) // 2
        return low

    def _first_below(self, seat: _Seat, besides: _Seat | None = None) -> _Seat | None:
        """The child that is first, its rank found anew if anything has changed that decides it; `besides`:
        of its other children."""
        at = 0
        while at < len(seat.order):
            if seat.order[at][2] in seat.unasked and self._sweep(seat):
                continue
            child = self._child(seat, seat.order[at])
            if child is besides:
                at += 1
                continue
            if self._stands(child) or self._renew(child, at):
                return child
            # Whoever stands there now may have a lower rank.
            at = 0
        return None

    def _stands(self, child: _Seat) -> bool:
        """Whether its rank is what it was when it was found."""
        node = child.node
        assert node is not None
        sure = node.root.revision, self._changes
        if child.sure == sure:
            return True
        if node.is_queue and child.stood == (node.revision, self._changes) and self._is_next(node.id):
            child.sure = sure
            return True
        return False

    def _renew(self, child: _Seat, at: int) -> bool:
        """Find the rank of the one that stands at this position. Whether it stands there still."""
        node, parent = child.node, child.parent
        assert node is not None
        assert parent is not None
        before, rank = child.rank, self._ask(child) if node.is_queue else self._look_below(child)
        child.sure, child.stood = (node.root.revision, self._changes), (node.revision, self._changes)
        if rank == before:
            return True
        order, children = parent.order, parent.children
        if rank is None or before is None or at or (len(order) > 1 and order[1] < rank):
            self._place(child, rank)
            return False
        del children[before[2]]
        order[0] = child.rank = rank
        children[rank[2]] = child
        return True

    def _child(self, seat: _Seat, rank: Rank) -> _Seat:
        """Whose rank it is."""
        node = seat.unasked.pop(rank[2], None)
        if node is not None:
            child = seat.children[rank[2]] = self._seat(node)
            child.rank, child.sure, child.stood = rank, None, None
        return seat.children[rank[2]]

    def _sweep(self, seat: _Seat) -> bool:
        """Once there is nothing left for the queues of a cohort, they go all at once. Whether any did."""
        if seat.node is None or seat.is_swept or not self._is_over(seat.node):
            return False
        seat.is_swept = True
        unasked = seat.unasked
        offering = self._offering([node.id for node in unasked.values()])
        if len(offering) == len(unasked):
            return False
        seat.unasked = {key: node for key, node in unasked.items() if node.id in offering}
        seat.order = [rank for rank in seat.order if rank[2] in seat.unasked or rank[2] not in unasked]
        return True

    def _look_below(self, cohort: _Seat) -> Rank | None:
        """The rank of a cohort with the next row of the queue that is first in it."""
        found = self._first_below(cohort)
        if found is None:
            return None
        cohort.first = found.first or found
        self._note_found(cohort)
        return self._rank(cohort, cohort.first)

    def _ask(self, seat: _Seat) -> Rank | None:
        """The rank of a queue with its next row."""
        seat.runner = self._next_of(_node_of(seat).id)
        if seat.runner is None:
            return None
        seat.query = self._query_of(seat.runner)
        rank = self._rank(seat, seat)
        if rank[0] and not _borrows_at_least(_node_of(seat), self._guesses[_node_of(seat).id].needs):
            self._note_found(seat)
        return rank

    def _note_found(self, seat: _Seat) -> None:
        self._found.setdefault(_node_of(seat).root, []).append(seat)

    def _guess_of(self, seat: _Seat) -> Rank | None:
        """The lowest rank that it may have now."""
        if _node_of(seat).is_queue:
            return seat.rank and (False, *seat.rank[1:])
        if not seat.order or seat.least is None:
            return None
        return (False, self._share(seat), seat.least)

    def _place(self, seat: _Seat, rank: Rank | None) -> None:
        """Give it another rank, or none."""
        assert seat.parent is not None
        if rank == seat.rank:
            return
        order, children = seat.parent.order, seat.parent.children
        if seat.rank is not None:
            del order[bisect_left(order, seat.rank)], children[seat.rank[2]]
        seat.rank = rank
        if rank is not None:
            insort(order, rank)
            children[rank[2]] = seat

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
        return (borrows, self._share(seat, query, taken), runner.key)

    def _share(self, seat: _Seat, query: ShapeQuery | None = None, taken: int = 0) -> float:
        assert seat.node is not None
        extra = seat.extra
        if taken and query is not None:
            extra = {r: extra.get(r, 0.0) + taken * query.most.get(r, 0) for r in {*extra, *query.most}}
        return share_of(seat.node, self._tree.capacity, extra) if extra else self._tree.share_of(seat.node)

    def _seat(self, node: QuotaNode) -> _Seat:
        seat = self._seats.get(node)
        if seat is None:
            seat = self._seats[node] = _Seat(node, self._above(node))
        return seat

    def _above(self, node: QuotaNode) -> _Seat:
        return self._root if node.parent is None else self._seat(node.parent)

    def _add_extra(self, seat: _Seat, amounts: Mapping[str, float]) -> None:
        extra = dict(seat.extra)
        for resource, amount in amounts.items():
            extra[resource] = extra.get(resource, 0.0) + amount
        seat.extra = extra


def _node_of(seat: _Seat) -> QuotaNode:
    assert seat.node is not None
    return seat.node


def _append(seat: _Seat, rank: Rank) -> None:
    """Its parent's order is to be sorted yet."""
    assert seat.parent is not None
    seat.rank = rank
    seat.parent.order.append(rank)
    seat.parent.children[rank[2]] = seat


def _borrows_at_least(node: QuotaNode, needs: Mapping[str, int]) -> bool:
    if node.parent is None:
        return False
    for name, need in needs.items():  # noqa: SIM110 (asked for every queue: a generator costs more)
        if need > _own_room(node, name) and node.counts(name):
            return True
    return False


def must_borrow(node: QuotaNode, query: ShapeQuery, taken: int = 0) -> bool:
    """Whether one unit more (after `taken` of them) is more than the node has of its own, whichever
    models it takes. A root borrows from nobody."""
    if node.parent is None:
        return False
    is_short = False
    for resource, need in query.most.items():
        if need and (taken + 1) * need > _own_room(node, resource) and node.counts(resource):
            if resource not in query.models:
                return True
            is_short = True
    if not is_short:
        return False
    needs = {model: query.most[model] for model in query.models}
    caps = {
        model: max(0, _own_room(node, model) - taken * need)
        for model, need in needs.items()
        if need and node.counts(model)
    }
    return bool(exceeded_models(query, caps))


def _own_room(node: QuotaNode, resource: str) -> int:
    return node.subtree.get(resource, 0) - node.usage.get(resource, 0)
