"""Drops what is older than seven days (X6): tombstones, records of ended members, logs."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import structlog

from service.clock import Clock
from service.points import reach
from workers.launchers.local.known import KnownMembers
from workers.launchers.local.layout import Layout

KEPT = timedelta(days=7)
_PERIOD_SECONDS = 3600.0
#: How many files are looked at between two rests, which leave the processor to who launches.
_STEP = 200
_REST_SECONDS = 0.005

_log = structlog.get_logger(__name__)


class Sweeper:
    """A thread that sweeps now and every hour. Nobody waits for it: what seven days leave can be much.

    `on_drop` is called, from that thread, when a record was dropped.
    """

    def __init__(self, data: Path, known: KnownMembers, *, clock: Clock, on_drop: Callable[[], None]) -> None:
        self._data = data
        self._known = known
        self._clock = clock
        self._on_drop = on_drop
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="local-launcher-sweep", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it; a sweep is left where it is."""
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.is_set():
            try:
                has_dropped = sweep(self._data, self._known, now=self._clock.now(), rest=self._rest)
            except OSError as error:  # what is left is looked at in an hour
                _log.warning("local_launcher_sweep_failed", error=str(error))
            else:
                if has_dropped:
                    self._on_drop()
            self._is_over.wait(_PERIOD_SECONDS)

    def _rest(self) -> bool:
        return self._is_over.wait(_REST_SECONDS)


def sweep(
    data: Path, known: KnownMembers, *, now: datetime, rest: Callable[[], bool] = lambda: False
) -> bool:
    """Drop what is too old; True if a record was among it. What belongs to a live member stays.

    A tombstone may go since every claim that could still be launched is younger (X6). `rest` is called
    now and then; True from it ends the sweep early.
    """
    layout = Layout(data / "launcher")
    limit = (now - KEPT).timestamp()
    has_dropped = known.drop_ended_before(now - KEPT)
    for entry in _old_entries(layout.tombstones, limit=limit, rest=rest):
        Path(entry).unlink(missing_ok=True)
        reach("launcher.old-tombstone-dropped")
    for entry in _old_entries(data / "logs", limit=limit, rest=rest):
        # Those of units: what the stack itself writes lies beside them and is not ours to drop.
        if (
            entry.name.isdecimal()
            and not layout.unit(int(entry.name)).exists()
            and _newest_change(Path(entry)) < limit
        ):
            shutil.rmtree(entry, ignore_errors=True)
            reach("launcher.old-logs-dropped")
    return has_dropped


def _old_entries(folder: Path, *, limit: float, rest: Callable[[], bool]) -> Iterator[os.DirEntry[str]]:
    """What did not change itself since `limit`; folders may hold what did."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for number, entry in enumerate(entries, start=1):
            if number % _STEP == 0 and rest():
                return
            with suppress(FileNotFoundError):  # another launcher on this folder sweeps, too
                if entry.stat(follow_symlinks=False).st_mtime < limit:
                    yield entry


def _newest_change(folder: Path) -> float:
    return max(path.stat().st_mtime for path in (folder, *folder.rglob("*")))
