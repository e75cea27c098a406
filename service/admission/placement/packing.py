"""Seat members of one role on the nodes of one domain so that little is left in pieces.

For one role alone both orders are exact: they look at every node that has a seat.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator

from service.admission.nodes.field import Entry, Field, Membership, Stock
from service.admission.nodes.query import RoleQuery
from service.admission.placement.scratch import Scratch


def pack(role: RoleQuery, choice: int, *, field: Field, stock: Stock, scratch: Scratch, want: int) -> int:
    """Seat up to `want` members of a gang on as few nodes as possible: first beside its other
    roles, then on the roomiest nodes, the rest on the node that it fills best.

    `choice` is the model's position in `role.models`, `field` the one that the stock is of. Returns how
    many members were seated.
    """
    model = role.models[choice]
    want = scratch.bound(role, model, want)
    left = want
    for membership in _touched(field, stock, scratch):
        if left == 0:
            return want
        left -= _seat(role, membership, model=model, scratch=scratch, want=left)
    for bucket in _roomiest_first(role, stock):
        for cpus_milli, _, node_id in _most_cpus_first(stock.buckets[bucket]):
            if left == 0:
                return want
            if cpus_milli < role.requests.cpus_milli:
                break
            if scratch.is_touched(node_id) or node_id in scratch.avoided:
                continue
            membership = field.members[node_id]
            if scratch.seats(role, membership, left) == left:
                tightest = _tightest(role, field, stock=stock, scratch=scratch, than=membership, want=left)
                membership = tightest or membership
            left -= _seat(role, membership, model=model, scratch=scratch, want=left)
    return want - left


def pick(role: RoleQuery, *, field: Field, stock: Stock, avoided: Collection[int]) -> Membership | None:
    """The node on which `pack` would seat one member alone."""
    cpus_milli, memory_mib = role.requests.cpus_milli, role.requests.memory_mib

    def first_with_seat(rows: Iterable[Entry]) -> Membership | None:
        for cpus_free, _, node_id in rows:
            if cpus_free < cpus_milli:
                return None
            if node_id not in avoided:
                membership = field.members[node_id]
                if membership.state.free_memory_mib >= memory_mib:
                    return membership
        return None

    for top in _roomiest_first(role, stock):
        than = first_with_seat(_most_cpus_first(stock.buckets[top]))
        if than is None:
            continue
        # As `_tightest`: the least that is enough; of those with as much as it has, that one.
        gpus = role.requests.gpus
        for bucket in sorted(b for b in stock.buckets if gpus <= b <= top) if gpus else (top,):
            rows = stock.buckets[bucket]
            enough = (rows[at] for at in range(bisect_left(rows, (cpus_milli,)), len(rows)))
            if found := first_with_seat(enough):
                is_less = bucket < top or found.state.free_cpus_milli < than.state.free_cpus_milli
                return found if is_less else than
        return than
    return None


def pour(role: RoleQuery, choice: int, *, field: Field, stock: Stock, scratch: Scratch, want: int) -> int:
    """Seat up to `want` members that do not need each other: nodes that are partly used first,
    and of those the one with the fewest free GPUs. Returns how many members were seated."""
    model = role.models[choice]
    want = scratch.bound(role, model, want)
    left = want
    for bucket in sorted(stock.buckets):
        if bucket < role.requests.gpus and role.requests.gpus:
            continue
        for node_id in _with_cpus(stock.buckets[bucket], role.requests.cpus_milli):
            if left == 0:
                return want
            if node_id not in scratch.avoided:
                left -= _seat(role, field.members[node_id], model=model, scratch=scratch, want=left)
    return want - left


def _with_cpus(rows: list[Entry], cpus_milli: int) -> Iterator[int]:
    """Nodes of a bucket with so many free CPUs, fewest first."""
    for index in range(bisect_left(rows, (cpus_milli,)), len(rows)):
        yield rows[index][2]


def _most_cpus_first(rows: list[Entry]) -> Iterator[Entry]:
    """Of nodes with as many free CPUs the lowest in the order of the topology first."""
    end = len(rows)
    while end:
        start = bisect_left(rows, rows[end - 1][:1])
        yield from rows[start:end]
        end = start


def _seat(role: RoleQuery, membership: Membership, *, model: str, scratch: Scratch, want: int) -> int:
    seats = scratch.seats(role, membership, want)
    if seats:
        scratch.take(role, model, membership, seats)
    return seats


def _touched(field: Field, stock: Stock, scratch: Scratch) -> Iterator[Membership]:
    for node_id in scratch.touched:
        membership = field.members.get(node_id)
        if membership is not None and membership.stock is stock and membership.state.is_available:
            yield membership


def _roomiest_first(role: RoleQuery, stock: Stock) -> Iterable[int]:
    """Buckets that may have a seat. For a role without GPUs: nodes without devices first, then
    those with the fewest free GPUs."""
    if role.requests.gpus == 0:
        return sorted(stock.buckets)
    return sorted((bucket for bucket in stock.buckets if bucket >= role.requests.gpus), reverse=True)


def _tightest(
    role: RoleQuery, field: Field, *, stock: Stock, scratch: Scratch, than: Membership, want: int
) -> Membership | None:
    """The node that holds all of `want` and has the least free beyond it, if that is less than there is on
    one that holds it; of those with as much, that one lies beside what was taken last."""
    need, top = role.requests.times(want), than.bucket
    buckets = [top] if role.requests.gpus == 0 else sorted(b for b in stock.buckets if need.gpus <= b <= top)
    for bucket in buckets:
        for node_id in _with_cpus(stock.buckets[bucket], need.cpus_milli):
            if scratch.is_touched(node_id) or node_id in scratch.avoided:
                continue
            membership = field.members[node_id]
            if bucket == top and membership.state.free_cpus_milli >= than.state.free_cpus_milli:
                return None
            if scratch.seats(role, membership, want) == want:
                return membership
    return None
