"""Whether a shape still has a place where it had one: a look at few nodes instead of a search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from service.admission.nodes.query import ShapeQuery
from service.admission.nodes.seats import is_plain, seats_now
from service.admission.placement.scratch import Share

#: By node, how many members of the only role sit there.
Witness = tuple[tuple[int, int], ...]


def witness_of(query: ShapeQuery, shares: Iterable[Share]) -> Witness:
    """Nothing of a query of which seats alone do not tell whether it has a place."""
    seats = Counter[int]()
    for share in shares if is_plain(query) else ():
        seats[share.node_id] += share.seats
    return tuple(seats.items())


def still_stands(query: ShapeQuery, witness: Witness) -> bool:
    """Whether all of it fits there, in one domain, as things are now."""
    if not witness:
        return False
    (role,) = query.roles
    members, domains = role.fields[0].members, set()
    for node_id, seats in witness:
        membership = members.get(node_id)
        if membership is None or not membership.state.is_available or seats_now(role, membership) < seats:
            return False
        domains.add(membership.stock.domain)
    return len(domains) == 1
