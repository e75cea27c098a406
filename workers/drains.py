"""Drains of a pool's nodes that have come to their deadline: whose members are there is evicted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from service.operations.deadlines import evict_drained
from service.operations.dispatch import PoolFence
from service.points import reach
from service.settings import Settings

_AT_ONCE = datetime.min.replace(tzinfo=UTC)


class Drains:
    """Looks when a drain is known to be due, and besides as often as the dispatcher polls."""

    def __init__(self, fence: PoolFence, settings: Settings) -> None:
        self._fence = fence
        self._settings = settings
        self._next_at = _AT_ONCE

    def expect(self, at: datetime) -> None:
        """A drain falls due then."""
        self._next_at = min(self._next_at, at)

    def evict_due(self, now: datetime) -> bool:
        """True if anything was evicted."""
        if now < self._next_at:
            return False
        self._next_at = now + timedelta(seconds=self._settings.dispatcher_poll_seconds)
        has_evicted = bool(evict_drained(self._fence, now=now).unit_ids)
        if has_evicted:
            reach("dispatcher.drained-evicted")
        return has_evicted
