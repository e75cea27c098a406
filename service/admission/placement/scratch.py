"""One attempt to place a unit: what it has taken so far on the nodes that it touched.

Buckets of a field keep showing what was free before the attempt; a touched node has less.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

from service.admission.nodes.field import Membership
from service.admission.nodes.query import NO_MODEL, RoleQuery
from service.admission.nodes.state import NodeState


class Share(NamedTuple):
    """`seats` members of one role on one node; `devices` are theirs, in the order of members."""

    role: int
    model: str
    node_id: int
    seats: int
    devices: tuple[int, ...]
    gpus: int
    cpus_milli: int
    memory_mib: int


def share_of(
    role: RoleQuery, model: str, membership: Membership, *, count: int, free: frozenset[int]
) -> Share:
    """Seats of `count` members on a node where these devices are free; the caller knows that they fit."""
    requests = role.requests
    devices: tuple[int, ...] = ()
    if requests.gpus:
        eligible = (device for device in membership.devices if device in free)
        devices = tuple(islice(eligible, count * requests.gpus))
    return Share(
        role.position,
        model,
        membership.state.node.id,
        count,
        devices,
        requests.gpus,
        count * requests.cpus_milli,
        count * requests.memory_mib,
    )


class _Left(NamedTuple):
    devices: frozenset[int]
    cpus_milli: int
    memory_mib: int


class Scratch:
    """`caps` bound GPUs by model (a queue's headroom); models that are not named are unbounded."""

    def __init__(
        self,
        nodes: Mapping[int, NodeState],
        caps: Mapping[str, int],
        avoided: frozenset[int] = frozenset(),
    ) -> None:
        self._nodes = nodes
        self._left: dict[int, _Left] = {}
        self._undo: list[_Left | None] = []
        self.caps = dict(caps)
        self.avoided = avoided
        self.shares: list[Share] = []

    @property
    def touched(self) -> tuple[int, ...]:
        return tuple(self._left)

    def is_touched(self, node_id: int) -> bool:
        return node_id in self._left

    def bound(self, role: RoleQuery, model: str, want: int) -> int:
        """How many of `want` members the caps allow."""
        cap = self.caps.get(model) if role.requests.gpus else None
        return want if cap is None else min(want, cap // role.requests.gpus)

    def seats(self, role: RoleQuery, membership: Membership, want: int) -> int:
        """How many of `want` members fit on the node now."""
        requests, node_id = role.requests, membership.state.node.id
        left = self._left.get(node_id)
        if left is None:
            state = membership.state
            left = _Left(state.free, state.free_cpus_milli, state.free_memory_mib)
        seats = want
        if requests.gpus:
            seats = min(seats, len(membership.eligible & left.devices) // requests.gpus)
        if requests.cpus_milli:
            seats = min(seats, left.cpus_milli // requests.cpus_milli)
        if requests.memory_mib:
            seats = min(seats, left.memory_mib // requests.memory_mib)
        return seats

    def take(self, role: RoleQuery, model: str, membership: Membership, count: int) -> None:
        """Seat `count` members; the caller knows that they fit."""
        state = membership.state
        before = self._left.get(state.node.id)
        left = before or _Left(state.free, state.free_cpus_milli, state.free_memory_mib)
        share = share_of(role, model, membership, count=count, free=left.devices)
        self._undo.append(before)
        self._left[state.node.id] = _Left(
            left.devices.difference(share.devices),
            left.cpus_milli - share.cpus_milli,
            left.memory_mib - share.memory_mib,
        )
        if model != NO_MODEL and model in self.caps:
            self.caps[model] -= len(share.devices)
        self.shares.append(share)

    def undo(self, size: int) -> None:
        """Go back to when there were `size` shares."""
        while len(self.shares) > size:
            share, before = self.shares.pop(), self._undo.pop()
            if before is None:
                del self._left[share.node_id]
            else:
                self._left[share.node_id] = before
            if share.model in self.caps:
                self.caps[share.model] += len(share.devices)
