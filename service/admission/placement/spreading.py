"""Seat members of one role on as many nodes of a domain as possible, evenly, and these in as many domains
of each inner level: for queues that ask for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest

from service.admission.nodes.field import Field, Membership, Stock
from service.admission.nodes.query import RoleQuery
from service.admission.placement.scratch import Scratch


def spread(role: RoleQuery, choice: int, *, field: Field, stock: Stock, scratch: Scratch, want: int) -> int:
    """As `packing.pack`; it looks at every node of the domain."""
    model = role.models[choice]
    left = scratch.bound(role, model, want)
    fitting = [each for each in _nodes(field, stock, scratch) if scratch.seats(role, each, 1)]
    order = list(_in_turn(fitting, 0))
    seated = 0
    while order and seated < left:
        again: list[Membership] = []
        for membership in order[: left - seated]:
            if scratch.seats(role, membership, 1):
                scratch.take(role, model, membership, 1)
                again.append(membership)
        seated += len(again)
        order = again
    return seated


def _nodes(field: Field, stock: Stock, scratch: Scratch) -> Iterator[Membership]:
    """Those with the most that is free first."""
    for bucket in sorted(stock.buckets, reverse=True):
        for _, _, node_id in reversed(stock.buckets[bucket]):
            if node_id not in scratch.avoided:
                yield field.members[node_id]


def _in_turn(nodes: Sequence[Membership], level: int) -> Iterator[Membership]:
    """One of each domain after the other, and so within each domain of the levels inside of it."""
    if not nodes or level == len(nodes[0].state.path):
        yield from nodes
        return
    domains: dict[str, list[Membership]] = {}
    for node in nodes:
        domains.setdefault(node.state.path[level], []).append(node)
    turns = zip_longest(*(_in_turn(inside, level + 1) for inside in domains.values()))
    yield from (node for node in chain.from_iterable(turns) if node is not None)
