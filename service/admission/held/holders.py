"""Who holds what on which node, and in which order it is given back."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from service.admission.held.given_back import GivenBack
from service.admission.held.holds import Taken
from service.admission.world import RunningUnit


class Holder(NamedTuple):
    """What one unit holds on one node, and until when at most; None: no bound."""

    unit_id: int
    taken: Taken
    frees_at: datetime | None


class Holders:
    """All running units. `ends`: those that are bounded, by their end; `given_back`: what these have given
    back by a date. `endless_ended` counts those without a bound that ended, or got one: while it stands, what
    they keep others from is kept from them."""

    def __init__(self) -> None:
        self.on: dict[int, dict[int, Holder]] = {}
        self.ends: list[tuple[datetime, int]] = []
        self.given_back = GivenBack()
        self.taken: dict[int, tuple[Taken, ...]] = {}
        self.endless_ended = 0
        self._moved: set[int] = set()

    def add(self, unit: RunningUnit, taken: Iterable[Taken]) -> None:
        self.taken[unit.id] = tuple(taken)
        for each in self.taken[unit.id]:
            self.on.setdefault(each.node_id, {})[unit.id] = Holder(unit.id, each, unit.frees_at)
            self._moved.add(each.node_id)
        if unit.frees_at is not None:
            insort(self.ends, (unit.frees_at, unit.id))
            self.given_back.add(unit)

    def remove(self, unit: RunningUnit) -> None:
        for each in self.taken.pop(unit.id):
            del self.on[each.node_id][unit.id]
            self._moved.add(each.node_id)
        if unit.frees_at is None:
            self.endless_ended += 1
        else:
            del self.ends[bisect_left(self.ends, (unit.frees_at, unit.id))]
            self.given_back.remove(unit)

    def pop_moved(self) -> set[int]:
        """Nodes on which somebody came or left since this was asked last."""
        moved, self._moved = self._moved, set()
        return moved

    def on_node(self, node_id: int) -> Iterable[Holder]:
        return self.on.get(node_id, {}).values()
