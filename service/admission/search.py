"""Exact search for a place in one domain, for gangs whose roles or models compete for the same
nodes and which packing one role after the other has missed.

It tries every number of members of each role and model on each node, so it finds a place if there
is one, as long as its bound on steps lasts; beyond that it says that there is none.
"""

from __future__ import annotations

from service.admission.field import Membership
from service.admission.query import RoleQuery
from service.admission.scratch import Scratch
from service.admission.topology import Domain

MAX_STEPS = 3000
MAX_CANDIDATES = 300

_Candidate = tuple[str, Membership]


class Search:
    """One search over `roles` in `domain`; what it found is in `scratch`."""

    def __init__(self, roles: tuple[RoleQuery, ...], domain: Domain, scratch: Scratch) -> None:
        self._roles = roles
        self._scratch = scratch
        self._candidates = [_candidates(role, domain, scratch) for role in roles]
        self._beyond = [
            _beyond(role, candidates, scratch)
            for role, candidates in zip(roles, self._candidates, strict=True)
        ]
        self._steps = MAX_STEPS

    def run(self) -> bool:
        if sum(len(candidates) for candidates in self._candidates) > MAX_CANDIDATES:
            return False
        return self._place(0, 0, self._roles[0].count)

    def _place(self, role_index: int, position: int, left: int) -> bool:
        """Place the `left` members of the role from candidate `position` on, and all later roles."""
        if left == 0:
            following = role_index + 1
            if following == len(self._roles):
                return True
            return self._place(following, 0, self._roles[following].count)
        self._steps -= 1
        if self._steps < 0 or left > self._beyond[role_index][position]:
            return False
        role, scratch = self._roles[role_index], self._scratch
        model, membership = self._candidates[role_index][position]
        most = scratch.bound(role, model, scratch.seats(role, membership, left))
        size = len(scratch.shares)
        for count in range(most, -1, -1):
            if count:
                scratch.take(role, model, membership, count)
            if self._place(role_index, position + 1, left - count):
                return True
            scratch.undo(size)
        return False


def _candidates(role: RoleQuery, domain: Domain, scratch: Scratch) -> list[_Candidate]:
    """Nodes with a seat, those that lose least first."""
    candidates: list[_Candidate] = []
    for model, field in zip(role.models, role.fields, strict=True):
        stock = field.stocks.get(domain)
        for bucket in sorted(stock.buckets) if stock is not None else ():
            assert stock is not None
            for _, _, node_id in stock.buckets[bucket]:
                membership = field.members[node_id]
                if node_id not in scratch.avoided and scratch.seats(role, membership, 1):
                    candidates.append((model, membership))
                if len(candidates) > MAX_CANDIDATES:
                    return candidates
    return candidates


def _beyond(role: RoleQuery, candidates: list[_Candidate], scratch: Scratch) -> list[int]:
    """For each position how many members the candidates from there on could seat at most."""
    beyond = [0]
    for _, membership in reversed(candidates):
        beyond.append(beyond[-1] + scratch.seats(role, membership, role.count))
    beyond.reverse()
    return beyond
