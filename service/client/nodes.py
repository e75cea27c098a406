"""Nodes and their GPUs."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from service.client.transport import Transport, segment


class Device(Struct, frozen=True, kw_only=True):
    """One GPU. Lost: something that could not be ended may still sit there."""

    index: int
    model: str
    memory_gib: float
    is_healthy: bool
    is_lost: bool
    is_held: bool
    lost_note: str | None


class Node(Struct, frozen=True, kw_only=True):
    """A machine of a pool. `drain_at`: when units with a member here are evicted."""

    name: str
    pool: str
    launcher: str
    is_simulated: bool
    is_reachable: bool
    is_ready: bool
    is_cordoned: bool
    drain_at: datetime | None
    labels: dict[str, str]
    cpus: float
    memory_gib: float
    gpus: list[Device]
    gpus_held: int


class _NodeList(Struct, frozen=True):
    nodes: list[Node]


class Nodes:
    """Reading is for everybody, changing for operators."""

    def __init__(self, transport: Transport) -> None:
        self._ask = transport.ask

    def list(self, *, pool: str | None = None, model: str | None = None) -> list[Node]:
        return self._ask("GET", "/v1/nodes", _NodeList, query={"pool": pool, "model": model}).nodes

    def get(self, name: str) -> Node:
        return self._ask("GET", f"/v1/nodes/{segment(name)}", Node)

    def cordon(self, name: str) -> Node:
        """Place nothing more on the node; what runs there goes on."""
        return self._ask("POST", f"/v1/nodes/{segment(name)}/cordon", Node)

    def uncordon(self, name: str) -> Node:
        """End cordon and drain."""
        return self._ask("POST", f"/v1/nodes/{segment(name)}/uncordon", Node)

    def drain(self, name: str, *, deadline: str | float | None = None) -> Node:
        """Cordon; after `deadline` (`10m`, or seconds; None: never) evict and requeue what is left."""
        # Repeated, it would set the deadline anew.
        body = {"deadline": deadline}
        return self._ask("POST", f"/v1/nodes/{segment(name)}/drain", Node, body=body, is_repeatable=False)
