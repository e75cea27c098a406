"""The cluster's configuration, kept in a process and read again when its version moves."""

from __future__ import annotations

from sqlalchemy import Connection

from service.admission.feasibility import Shortfall, check_members
from service.admission.world import Configuration
from service.domain.shape import Shape
from service.store.world_rows import read_configuration

_MOST_SHAPES = 10_000


class KnownConfiguration:
    """One for each process. Every change of queues, pools and nodes raises the version (L2)."""

    def __init__(self) -> None:
        self._known: tuple[Configuration, dict[Shape, tuple[Shortfall, ...]]] | None = None

    def at(self, version: int, conn: Connection) -> Cluster:
        """As of this transaction, which has just read the version."""
        known = self._known
        if known is None or known[0].version != version:
            known = self._known = (read_configuration(conn), {})
        return Cluster(*known)


class Cluster:
    """What a submission is compared with. Answers are found once for each shape."""

    def __init__(self, configuration: Configuration, found: dict[Shape, tuple[Shortfall, ...]]) -> None:
        self._configuration = configuration
        self._found = found

    @property
    def levels(self) -> frozenset[str]:
        """Topology levels of all pools."""
        return frozenset(level for pool in self._configuration.pools.values() for level in pool.levels)

    def shortfalls(self, shape: Shape) -> tuple[Shortfall, ...]:
        """What no registered node could give to one member of this shape."""
        known = self._found.get(shape)
        if known is None:
            if len(self._found) >= _MOST_SHAPES:
                self._found.clear()
            known = self._found[shape] = check_members(shape, self._configuration)
        return known
