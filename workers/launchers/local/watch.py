"""The thread that notices changes: told by supervisors, with a look at everything as a safety net."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from service.clock import Clock
from workers.launchers.local.bell import Bell
from workers.launchers.local.ending import end_abandoned
from workers.launchers.local.known import KnownMembers
from workers.launchers.local.layout import parse_mark
from workers.launchers.local.spawner import LOOK_AT_ALL
from workers.launchers.local.sweep import Sweeper

_STOP = "stop"
_SUPERVISORS_SECONDS = 1.0
_ALL_SECONDS = 10.0
_ORPHANS_SECONDS = 0.02

_log = structlog.get_logger(__name__)


class Watch:
    """Reads at once what a supervisor tells; looks for killed supervisors each second, and for records
    that nobody told of every ten."""

    def __init__(self, bells: Path, known: KnownMembers, *, data: Path, boot_id: str, clock: Clock) -> None:
        self._known = known
        self._boot_id = boot_id
        self._clock = clock
        self._bell = Bell(bells)
        self._wakes: list[Callable[[], None]] = []
        self._due = dict.fromkeys((_SUPERVISORS_SECONDS, _ALL_SECONDS), 0.0)
        self._has_orphans = False
        self._is_stopping = False
        self._look(set())  # what earlier launchers started is known before the first question
        self._thread = threading.Thread(target=self._run, name="local-launcher", daemon=True)
        self._thread.start()
        self._sweeper = Sweeper(data, known, clock=clock, on_drop=self._wake_all)

    def call(self, wake: Callable[[], None]) -> None:
        """Call `wake` from now on whenever something changed."""
        self._wakes.append(wake)

    def look_at_all(self) -> None:
        """Look for killed supervisors now, and again until nothing of their members is left."""
        self._bell.ring(LOOK_AT_ALL)

    def stop(self) -> None:
        """End the threads and wait for them."""
        self._sweeper.stop()
        self._is_stopping = True
        self._bell.ring(_STOP)
        self._thread.join()
        self._bell.close()

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        while not self._is_stopping:
            poll.poll(self._wait_seconds() * 1000)
            try:
                has_changed = self._look(self._bell.take())
            except OSError as error:  # a full disk, or too many open files: the next look goes on from here
                _log.error("local_launcher_look_failed", error=str(error))
                time.sleep(_SUPERVISORS_SECONDS)
                continue
            if has_changed:
                self._wake_all()

    def _wake_all(self) -> None:
        for wake in self._wakes:
            wake()

    def _wait_seconds(self) -> float:
        if self._has_orphans:
            return _ORPHANS_SECONDS
        return max(min(self._due.values()) - time.monotonic(), 0)

    def _look(self, told: set[str]) -> bool:
        has_changed = self._known.refresh([key for text in told if (key := parse_mark(text))])
        is_told_all = LOOK_AT_ALL in told
        if self._is_due(_ALL_SECONDS):
            has_changed |= self._known.refresh_all()
        if self._is_due(_SUPERVISORS_SECONDS) or is_told_all or self._has_orphans:
            left, has_ended = end_abandoned(self._known, boot_id=self._boot_id, now=self._clock.now())
            self._has_orphans = bool(left)
            has_changed |= has_ended
        return has_changed

    def _is_due(self, period_seconds: float) -> bool:
        now = time.monotonic()
        if now < self._due[period_seconds]:
            return False
        self._due[period_seconds] = now + period_seconds
        return True
