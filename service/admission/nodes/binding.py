"""Which resource keeps a shape out where every sum suffices."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from service.admission.nodes.field import Field
from service.admission.nodes.query import RoleQuery, ShapeQuery
from service.admission.nodes.slice_room import role_that_lacks_slices
from service.admission.nodes.topology import Domain

#: In the order in which they are told: nodes are looked at for GPUs first.
AMOUNTS = ("gpus", "cpus_milli", "memory_mib")


class Binding(NamedTuple):
    """`amount` is the one of which no domain has enough for all members of `role`, node by node, on
    those nodes that have enough of the amounts before it. `is_whole`: not even the sum is enough in
    any one domain, for all roles. `slices`: not None where each member would find its place but for the
    slices that the role is in: for so many of them the best domain has room."""

    role: RoleQuery
    amount: str
    is_whole: bool
    slices: int | None = None


def find_binding(query: ShapeQuery) -> Binding:
    """The first resource that binds. Where each role by itself would find its places, they stand in
    each other's way: then it is the resource in which a placement is told."""
    first = query.roles[0]
    for amount in AMOUNTS if len(query.checks) == 1 else ():
        if getattr(query.total, amount) > best_domain(first, amount):
            return Binding(first, amount, is_whole=True)
    for role in query.roles:
        asked = [amount for amount in AMOUNTS if getattr(role.requests, amount)]
        for count in range(1, len(asked) + 1):
            if not _has_seats(role, asked[:count]):
                return Binding(role, asked[count - 1], is_whole=len(query.roles) == 1)
    if (lacking := role_that_lacks_slices(query)) is not None:
        role, room = lacking
        return Binding(role, leading_amount(query), is_whole=len(query.roles) == 1, slices=room)
    return Binding(first, leading_amount(query), is_whole=True)


def leading_amount(query: ShapeQuery) -> str:
    """The resource in which a placement is told: GPUs, unless the shape uses none."""
    return next((amount for amount in AMOUNTS if getattr(query.total, amount)), AMOUNTS[-1])


def best_domain(role: RoleQuery, amount: str) -> int:
    """The most that is free in one domain of the required level."""
    return most_in_one_domain(role.fields, amount)


def most_in_one_domain(fields: Collection[Field], amount: str) -> int:
    if len(fields) == 1:
        (field,) = fields
        return field.rooms.most(amount)
    totals: dict[Domain, int] = {}
    for field in fields:
        for stock in field.stocks.values():
            totals[stock.domain] = totals.get(stock.domain, 0) + getattr(stock, amount)
    return max(totals.values(), default=0)


def _has_seats(role: RoleQuery, amounts: Sequence[str]) -> bool:
    gpus, cpus_milli = role.requests.gpus, role.requests.cpus_milli if "cpus_milli" in amounts else 0
    most = (field.rooms.most_seats(gpus, cpus_milli=cpus_milli) for field in role.fields)
    if gpus and sum(most) < role.count:
        return False
    if amounts == ["gpus"] and len(role.fields) == 1:
        return True
    domains = {domain for field in role.fields for domain in field.stocks}
    return any(_is_enough(role, domain, amounts) for domain in domains)


def _is_enough(role: RoleQuery, domain: Domain, amounts: Sequence[str]) -> bool:
    """Whether nodes of the domain have these amounts for all members of the role; ends as soon as
    they have."""
    requests, seats = role.requests, 0
    for field in role.fields:
        stock = field.stocks.get(domain)
        for gpus, rows in stock.buckets.items() if stock is not None else ():
            most = gpus // requests.gpus if requests.gpus else role.count
            if most and amounts == ["gpus"]:
                seats += most * len(rows)
                continue
            for cpus_milli, _, node_id in reversed(rows) if most else ():
                if seats >= role.count:
                    return True
                if cpus_milli < requests.cpus_milli:
                    break
                fitting = cpus_milli // requests.cpus_milli if requests.cpus_milli else most
                if "memory_mib" in amounts:
                    free = field.members[node_id].state.free_memory_mib
                    fitting = min(fitting, free // requests.memory_mib)
                seats += min(most, fitting)
    return seats >= role.count
