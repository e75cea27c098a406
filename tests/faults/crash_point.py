"""Sets named points (service.points) in the processes of a running stack."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from service.points import VARIABLE
from tests.e2e.stacks import wait_for

_STRIKE_SECONDS = 30.0


@dataclass(frozen=True)
class CrashPoint:
    """The file that the stack's processes look for at every point."""

    path: Path

    @classmethod
    def of(cls, data: Path) -> CrashPoint:
        """That of the stack on `data`, which was started with `environment`."""
        return cls(data.with_name(f"{data.name}.point"))

    @property
    def environment(self) -> dict[str, str]:
        return {VARIABLE: str(self.path)}

    def set(self, name: str, action: str = "kill", *, nth: int = 1) -> None:
        """From now on whoever first comes to `name` for the `nth` time does `action`, once."""
        self.clear()
        draft = self.path.with_name("point-draft")
        draft.write_text(f"{name}:{action}:{nth}")
        draft.rename(self.path)

    def clear(self) -> None:
        """Nobody does anything any more."""
        for path in (self.path, *self._struck()):
            path.unlink(missing_ok=True)

    def wait_struck(self, *, seconds: float = _STRIKE_SECONDS) -> int:
        """The pid of the process that came there."""
        name = self.path.read_text() if self.path.exists() else "the point"
        return wait_for(self.find_struck, f"somebody comes to {name}", seconds=seconds)

    def find_struck(self) -> int | None:
        for path in self._struck():
            return int(path.suffix[1:])
        return None

    @contextmanager
    def freezing(self, name: str, *, nth: int = 1) -> Iterator[None]:
        """Set before the block in which somebody is to come to `name`, and cleared after it."""
        self.set(name, "freeze", nth=nth)
        try:
            yield
        finally:
            self.clear()

    def _struck(self) -> list[Path]:
        return list(self.path.parent.glob(f"{self.path.name}.*"))


def wait_frozen(pid: int, *, seconds: float = 10.0) -> None:
    """Wait until the process stands still."""
    deadline = time.monotonic() + seconds
    while _state(pid) not in {"T", "t"}:
        assert time.monotonic() < deadline, f"{pid} is not frozen"
        time.sleep(0.01)


def wait_killed(pid: int, *, seconds: float = 10.0) -> None:
    """Wait until the process has ended; a zombie has."""
    deadline = time.monotonic() + seconds
    while _state(pid) not in {"", "Z", "X"}:
        assert time.monotonic() < deadline, f"{pid} was not killed"
        time.sleep(0.01)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except (FileNotFoundError, ProcessLookupError):
        return ""
