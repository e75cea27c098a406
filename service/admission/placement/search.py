"""Exact search for a place in one domain, for gangs whose roles or models compete for the same
nodes and which packing one role after the other has missed.

It tries every number of members of each role and model on each node, and every domain for each slice, so
it finds a place if there is one, as long as its bound on steps lasts; beyond that it says that there is
none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from service.admission.nodes.field import Field, Membership
from service.admission.nodes.query import RoleQuery
from service.admission.nodes.topology import Domain
from service.admission.placement.scratch import Scratch

MAX_STEPS = 3000
MAX_CANDIDATES = 300

_Candidate = tuple[str, Membership]


class _Nodes(NamedTuple):
    """Nodes of one domain with a seat, those that lose least first. `beyond`: for each position how many
    members those from there on could seat at most."""

    candidates: list[_Candidate]
    beyond: list[int]


class _Part(NamedTuple):
    """Members that lie in one of several domains: all of a role, or one slice. `follows` an equal slice,
    which has then taken one of the domains before."""

    role: RoleQuery
    members: int
    domains: list[_Nodes]
    follows: bool


class Search:
    """One search over `roles` in `domain`; what it found is in `scratch`."""

    def __init__(self, roles: tuple[RoleQuery, ...], domain: Domain, scratch: Scratch) -> None:
        self._scratch = scratch
        self._parts = [part for role in roles for part in _parts(role, domain, scratch)]
        self._steps = MAX_STEPS

    def run(self) -> bool:
        sizes = (len(nodes.candidates) for part in self._parts if not part.follows for nodes in part.domains)
        return sum(sizes) <= MAX_CANDIDATES and self._place_part(0, 0)

    def _place_part(self, index: int, before: int) -> bool:
        """Place the part and all later ones; the one before it lies in domain `before`."""
        if index == len(self._parts):
            return True
        part = self._parts[index]
        first = before if part.follows else 0
        return any(
            self._place(index, chosen, position=0, left=part.members)
            for chosen in range(first, len(part.domains))
        )

    def _place(self, index: int, chosen: int, *, position: int, left: int) -> bool:
        """Place the `left` members of the part from candidate `position` on, and all later parts."""
        if left == 0:
            return self._place_part(index + 1, chosen)
        self._steps -= 1
        part, scratch = self._parts[index], self._scratch
        nodes = part.domains[chosen]
        if self._steps < 0 or left > nodes.beyond[position]:
            return False
        model, membership = nodes.candidates[position]
        most = scratch.bound(part.role, model, scratch.seats(part.role, membership, left))
        size = len(scratch.shares)
        for count in range(most, -1, -1):
            if count:
                scratch.take(part.role, model, membership, count)
            if self._place(index, chosen, position=position + 1, left=left - count):
                return True
            scratch.undo(size)
        return False


def _parts(role: RoleQuery, domain: Domain, scratch: Scratch) -> Iterator[_Part]:
    if not role.is_sliced_in(domain):
        is_possible = role.has_slices_at(domain)
        domains = [_nodes(role, role.fields, domain=domain, scratch=scratch)] if is_possible else []
        yield _Part(role, role.count, domains, follows=False)
        return
    assert role.slices is not None
    fields, size = role.slices.fields, role.slices.size
    inner = sorted({stock.domain for field in fields for stock in field.within(domain)})
    domains = [_nodes(role, fields, domain=each, scratch=scratch) for each in inner]
    for number in range(role.count // size):
        yield _Part(role, size, domains, follows=number > 0)


def _nodes(role: RoleQuery, fields: tuple[Field, ...], *, domain: Domain, scratch: Scratch) -> _Nodes:
    candidates = list(_candidates(role, fields, domain=domain, scratch=scratch))
    beyond = [0]
    for _, membership in reversed(candidates):
        beyond.append(beyond[-1] + scratch.seats(role, membership, role.count))
    beyond.reverse()
    return _Nodes(candidates, beyond)


def _candidates(
    role: RoleQuery, fields: tuple[Field, ...], *, domain: Domain, scratch: Scratch
) -> Iterator[_Candidate]:
    found = 0
    for model, field in zip(role.models, fields, strict=True):
        stock = field.stocks.get(domain)
        for bucket in sorted(stock.buckets) if stock is not None else ():
            assert stock is not None
            for _, _, node_id in stock.buckets[bucket]:
                membership = field.members[node_id]
                if node_id not in scratch.avoided and scratch.seats(role, membership, 1):
                    found += 1
                    yield model, membership
                if found > MAX_CANDIDATES:
                    return
