"""What is kept of the places of all claims, found anew only for those of which something may have changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from service.admission.held.holders import Holders
from service.admission.held.holds import Taken
from service.admission.nodes.state import NodeState
from service.admission.state.kept import kept_of
from service.admission.world import Configuration
from service.domain.claim import Claim
from service.domain.shape import Shape


class _Known(NamedTuple):
    claim: Claim
    shape: Shape
    nodes: frozenset[int]
    kept: tuple[Taken, ...]


class KeptClaims:
    """Remembers, by unit, what was found last; nodes are as they were while the configuration is."""

    def __init__(self) -> None:
        self._configuration: Configuration | None = None
        self._known: dict[int, _Known] = {}

    def find(
        self,
        entitled: Sequence[tuple[Claim, Shape]],
        *,
        configuration: Configuration,
        nodes: Mapping[int, NodeState],
        holders: Holders,
    ) -> dict[int, tuple[Taken, ...]]:
        """By unit, for claims whose units are entitled, the oldest first: they keep what is free before
        younger ones do."""
        # 1. On which nodes somebody else holds something now, or keeps it.
        moved = holders.pop_moved()
        if configuration is not self._configuration:
            self._configuration = configuration
            self._known.clear()
        moved |= self._forget_all_but({claim.unit_id: claim for claim, _ in entitled})
        # 2. Whose claim is another one, or on such a node.
        found: dict[int, tuple[Taken, ...]] = {}
        others = _Others(found)
        for claim, shape in entitled:
            known = self._known.get(claim.unit_id)
            if known is None or not _is_as_it_was(known, claim, shape) or not moved.isdisjoint(known.nodes):
                kept = kept_of(claim, shape, nodes=nodes, on_node=holders.on_node, taken=others.devices())
                after = _Known(claim, shape, frozenset(place.node_id for place in claim.places), kept)
                if known is None or known.kept != kept:
                    moved |= after.nodes if known is None else after.nodes | known.nodes
                self._known[claim.unit_id] = known = after
            found[claim.unit_id] = known.kept
        return found

    def _forget_all_but(self, claims: Mapping[int, Claim]) -> set[int]:
        """Also those that stand elsewhere among the others now. Returns where anything was kept for them."""
        moved: set[int] = set()
        for unit_id, known in tuple(self._known.items()):
            claim = claims.get(unit_id)
            if claim is None or claim.made_at != known.claim.made_at:
                del self._known[unit_id]
                moved |= known.nodes
        return moved


class _Others:
    """Devices by node that the claims found so far keep, put together when they are asked for."""

    def __init__(self, found: Mapping[int, tuple[Taken, ...]]) -> None:
        self._found = found
        self._devices: dict[int, set[int]] = {}
        self._seen = 0

    def devices(self) -> Mapping[int, set[int]]:
        kept = list(self._found.values())
        for each in kept[self._seen :]:
            for taken in each:
                self._devices.setdefault(taken.node_id, set()).update(taken.devices)
        self._seen = len(kept)
        return self._devices


def _is_as_it_was(known: _Known, claim: Claim, shape: Shape) -> bool:
    return known.shape is shape and (known.claim is claim or known.claim == claim)
