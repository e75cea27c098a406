"""The only place that reads the wall clock. Everything else is handed `now`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """A source of the present instant, aware and in UTC."""

    def now(self) -> datetime: ...


class SystemClock:
    """The machine's wall clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class VirtualClock:
    """A clock that stands still until it is moved: for scenarios and simulation."""

    def __init__(self, start: datetime) -> None:
        self._now = start

    def now(self) -> datetime:
        return self._now

    def move_to(self, instant: datetime) -> None:
        """Move forward to `instant`. A virtual clock never goes back."""
        if instant < self._now:
            raise ValueError(f"the clock stands at {self._now} and cannot go back to {instant}")
        self._now = instant

    def advance(self, seconds: float) -> None:
        self.move_to(self._now + timedelta(seconds=seconds))
