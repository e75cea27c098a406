"""Starts again what died, with growing pauses, and keeps the logs within bounds."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from workers.embedded.log_file import bound_log
from workers.stack.errors import StackFailed
from workers.stack.journal import Journal
from workers.stack.parts import Part

_LOOK_SECONDS = 0.1
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0
#: After a fault of the watching itself, so that it does not fill the journal.
_FAULT_PAUSE_SECONDS = 1.0
#: Who lived so long is able to work: the pauses are for those that cannot even start.
_WELL_SECONDS = 3.0


@dataclass
class _Watched:
    part: Part
    started_at: float
    pause_seconds: float = _FIRST_PAUSE_SECONDS
    #: When to start it again (monotonic); None while it runs.
    due: float | None = None


class Watch:
    """A thread that looks at each part ten times a second."""

    def __init__(self, parts: Sequence[Part], journal: Journal) -> None:
        self._watched = [_Watched(part, time.monotonic()) for part in parts]
        self._journal = journal
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stack-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Return when nothing will be started any more."""
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(_LOOK_SECONDS):
            for each in self._watched:
                self._look_safely(each)

    def _look_safely(self, each: _Watched) -> None:
        """Whatever goes wrong with one part, it is looked at again, and so are the others."""
        try:
            self._look(each, time.monotonic())
        except Exception as error:  # noqa: BLE001 - without this thread nothing is started again
            self._journal.write(f"watching {each.part.name} failed: {error!r}", level="error")
            self._is_over.wait(_FAULT_PAUSE_SECONDS)

    def _look(self, each: _Watched, now: float) -> None:
        if each.due is None and not each.part.is_running:
            self._plan_start(each, now)
        elif each.due is not None and now >= each.due:
            self._start(each, now)
        # Last, since a full disk has no room for what is set aside.
        bound_log(each.part.log)

    def _plan_start(self, each: _Watched, now: float) -> None:
        if now - each.started_at >= _WELL_SECONDS:
            each.pause_seconds = _FIRST_PAUSE_SECONDS
        each.due = now + each.pause_seconds
        message = f"{each.part.name} {each.part.last_words()}"
        self._journal.write(message, level="error", starts_again_in=f"{each.pause_seconds:g} s")
        each.pause_seconds = min(each.pause_seconds * 2, _LONGEST_PAUSE_SECONDS)

    def _start(self, each: _Watched, now: float) -> None:
        each.due, each.started_at = None, now
        try:
            each.part.start()
        except (StackFailed, OSError) as error:
            self._journal.write(f"{each.part.name} did not start: {error}", level="error")
            self._plan_start(each, now)
            return
        self._journal.write(f"{each.part.name} started again", pid=each.part.pid)
