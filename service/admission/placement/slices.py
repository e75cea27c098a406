"""Roles in slices: each so many members in number lie within one domain of an inner level.

For one role alone this is exact: each domain takes whole slices, as many as it has room for, until all
have a place.
"""

from __future__ import annotations

from bisect import bisect_left

from service.admission.nodes.field import Field, Stock
from service.admission.nodes.query import RoleQuery
from service.admission.nodes.topology import Domain
from service.admission.placement.packing import pack
from service.admission.placement.scratch import Scratch
from service.admission.placement.spreading import spread


def seat_in_domain(
    role: RoleQuery,
    choice: int,
    *,
    domain: Domain,
    scratch: Scratch,
    want: int,
    is_spread: bool = False,
) -> int:
    """Seat up to `want` members in one domain, by slices if the role has any, which are packed. Returns how
    many."""
    if not role.is_sliced_in(domain):
        stock = role.fields[choice].stocks.get(domain)
        if stock is None or not role.has_slices_at(domain):
            return 0
        seat = spread if is_spread else pack
        return seat(role, choice, field=role.fields[choice], stock=stock, scratch=scratch, want=want)
    assert role.slices is not None
    field, size = role.slices.fields[choice], role.slices.size
    rooms = ((_most(role, stock) // size, stock) for stock in field.within(domain))
    stocks = sorted((slices, stock.gpus, stock.domain) for slices, stock in rooms if slices)
    left = want
    while left and stocks:
        # The tightest that may hold all that is left, else the one that may hold most.
        index = bisect_left(stocks, (left // size,))
        _, _, inner = stocks.pop(min(index, len(stocks) - 1))
        left -= _pack_whole(role, choice, field=field, stock=field.stocks[inner], scratch=scratch, want=left)
    return want - left


def _pack_whole(
    role: RoleQuery, choice: int, *, field: Field, stock: Stock, scratch: Scratch, want: int
) -> int:
    """Whole slices only."""
    assert role.slices is not None
    size = len(scratch.shares)
    seated = pack(role, choice, field=field, stock=stock, scratch=scratch, want=want)
    extra = seated % role.slices.size
    if not extra:
        return seated
    scratch.undo(size)
    return pack(role, choice, field=field, stock=stock, scratch=scratch, want=seated - extra)


def _most(role: RoleQuery, stock: Stock) -> int:
    """More members than this do not fit, by GPUs alone."""
    gpus = role.requests.gpus
    if not gpus:
        return role.count if stock.buckets else 0
    return sum(bucket // gpus * len(rows) for bucket, rows in stock.buckets.items())
