"""Signs of life of one process: a small file that its main loop writes, so that one that hangs or is
frozen shows.

The file lies in the runtime folder, which belongs to one machine or container: `muster health` asks about
the processes there and never about the cluster.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import structlog

from service.settings import Settings
from workers.embedded.identity import ProcessIdentity, find_identity, is_alive

_log = structlog.get_logger(__name__)

#: Beats in which nothing is new are written at most so often.
_WRITE_SECONDS = 0.5


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """What a process said last. `beat_at` is the machine's monotonic clock in seconds, which nobody sets.
    `is_well` False: it lives, and cannot do its work."""

    boot_id: str
    pid: int
    start: str
    beat_at: float
    doing: str
    is_well: bool

    @property
    def process(self) -> ProcessIdentity:
        return ProcessIdentity(self.boot_id, self.pid, self.start)


def runtime_folder(settings: Settings) -> Path:
    """Where the processes of this machine or container leave their signs of life."""
    return settings.runtime or settings.data / "run" / "health"


def read_beats(folder: Path, kind: str) -> list[Beat]:
    """List the last beat of each process of a kind that lives, by pid."""
    beats = [beat for path in folder.glob(f"{kind}.*.json") if (beat := _read(path)) is not None]
    return sorted((beat for beat in beats if _is_there(beat)), key=lambda beat: beat.pid)


class Heartbeat:
    """Written by the main loop of a process of `kind`. A folder that cannot be written to costs the signs
    of life, never the process."""

    def __init__(self, settings: Settings, kind: str) -> None:
        identity = find_identity(os.getpid())
        assert identity is not None
        self._identity = identity
        self._folder = runtime_folder(settings)
        self._kind = kind
        self._path = self._folder / f"{kind}.{identity.pid}.json"
        self._said: tuple[str, bool] | None = None
        self._written_at = 0.0
        self._is_failing = False
        self._settle_seconds = settings.health_seconds
        self._trouble: tuple[float, str] | None = None

    def start(self) -> None:
        """Make the folder, clear away what dead processes left, and beat for the first time."""
        self._try(self._prepare)
        self._say("starts", is_well=False)

    def beat(self, doing: str, *, is_well: bool = True) -> None:
        """The loop has come round. `doing` in two or three words.

        Behind a trouble it takes a while without another to be well again: who fails each time that it
        takes up its work is not well in between.
        """
        now = time.monotonic()
        if not is_well:
            self._trouble = (now, doing)
        elif self._trouble is not None and now - self._trouble[0] < self._settle_seconds:
            doing, is_well = f"{doing}, and just now: {self._trouble[1]}", False
        self._say(doing, is_well=is_well)

    def end(self) -> None:
        """The process leaves in good order."""
        self._try(lambda: self._path.unlink(missing_ok=True))

    def _say(self, doing: str, *, is_well: bool) -> None:
        now = time.monotonic()
        if self._said == (doing, is_well) and now - self._written_at < _WRITE_SECONDS:
            return
        self._said, self._written_at = (doing, is_well), now
        self._try(self._write)

    def _prepare(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in self._folder.glob(f"{self._kind}.*.json"):
            beat = _read(path)
            if beat is None or not _is_there(beat):
                path.unlink(missing_ok=True)

    def _write(self) -> None:
        assert self._said is not None
        doing, is_well = self._said
        beat = Beat(
            boot_id=self._identity.boot_id,
            pid=self._identity.pid,
            start=self._identity.start,
            beat_at=self._written_at,
            doing=doing,
            is_well=is_well,
        )
        draft = self._path.with_suffix(".new")
        draft.write_bytes(msgspec.json.encode(beat))
        draft.replace(self._path)

    def _try(self, action: Callable[[], None]) -> None:
        try:
            action()
        except OSError as error:
            if not self._is_failing:
                _log.warning("no_sign_of_life", folder=str(self._folder), error=error.strerror)
            self._is_failing = True
        else:
            self._is_failing = False


def _read(path: Path) -> Beat | None:
    """None if it is none, or has gone meanwhile."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Beat)
    except (OSError, msgspec.DecodeError):
        return None


def _is_there(beat: Beat) -> bool:
    return is_alive(beat.process)
