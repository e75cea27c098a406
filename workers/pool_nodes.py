"""The nodes of the pool that a dispatcher serves: what its launcher reports goes into the books."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import structlog

from service.operations.dispatch import PoolFence
from service.operations.pool_state import (
    Holder,
    NodeBook,
    Seat,
    commit_nodes,
    commit_reachability,
    find_devices,
    load_node_book,
    lose_devices,
)
from service.points import reach
from workers.launchers.base import Launcher, NodeReport
from workers.reconcile import reported_node

_log = structlog.get_logger(__name__)


class PoolNodes:
    """`book` is the pool as of the last read. `ring_leader` is called after each commit that changed where
    something may be placed."""

    def __init__(
        self, fence: PoolFence, launcher: Launcher, *, pool_name: str, ring_leader: Callable[[], None]
    ) -> None:
        self._fence = fence
        self._launcher = launcher
        self._pool_name = pool_name
        self._ring_leader = ring_leader
        self._reports: Sequence[NodeReport] | None = None
        self._has_inventory = False
        self.book: NodeBook = load_node_book(fence)

    def ask_again(self) -> None:
        """The next `register` asks the launcher: once a pass is enough."""
        self._has_inventory = False

    def register(self, now: datetime) -> bool:
        """Record what the launcher reports, if it was not asked yet. True if anything was written.
        Raises LauncherUnreachable."""
        if self._has_inventory:
            return False
        has_written = self._register(now)
        self._has_inventory = True
        return has_written

    def set_reachable(self, *, is_reachable: bool, now: datetime) -> bool:
        """True if that is new."""
        if self.book.is_unreachable != is_reachable:
            return False
        commit_reachability(self._fence, is_reachable=is_reachable, now=now)
        reach("dispatcher.reachability-recorded")
        self.book = replace(self.book, is_unreachable=not is_reachable)
        return True

    def read_again(self) -> None:
        """After the books have changed."""
        self.book = load_node_book(self._fence)

    def settle_devices(self, *, lost: Mapping[Seat, Holder], found: Sequence[Seat], now: datetime) -> bool:
        """X5: devices are lost while what cannot be ended sits there. True if anything was written."""
        has_found = find_devices(self._fence, found, now=now)
        if has_found:
            reach("dispatcher.devices-found")
        has_changed = lose_devices(self._fence, lost, now=now) | has_found
        if has_changed:
            reach("dispatcher.devices-lost")
            self._changed()
        return has_changed

    def _register(self, now: datetime) -> bool:
        reports = list(self._launcher.inventory())
        has_written = self.set_reachable(is_reachable=True, now=now)
        if reports == self._reports:
            return has_written
        registered = commit_nodes(self._fence, [reported_node(report) for report in reports], now=now)
        reach("dispatcher.nodes-registered")
        if registered.refused:
            _log.error("nodes_of_another_pool", pool=self._pool_name, nodes=registered.refused)
        self._reports = reports
        if registered.has_changed:
            self._changed()
        return has_written or registered.has_changed

    def _changed(self) -> None:
        self.read_again()
        self._ring_leader()
