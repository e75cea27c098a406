"""Named points between two writes, at which a test ends or freezes whoever reaches them.

MUSTER_CRASH_AT is for tests only. It says `NAME:ACTION` or `NAME:ACTION:NTH`: at the point NAME, the
NTH time that this process comes there (default 1), the process does ACTION to itself: `kill` is
SIGKILL, `freeze` SIGSTOP. Each new process that is given the variable does so anew.

Or it is the absolute path of a file in which that is written. While there is no such file nothing
happens, so points can be set in processes that run. Who acts first renames the file to PATH.PID, so
that of all processes one acts, once.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

VARIABLE = "MUSTER_CRASH_AT"

_SIGNALS = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP}


def reach(name: str) -> None:
    """Say that this process has come to the point `name`, a literal that no other place has."""
    if _plan is not None:
        _plan.reach(name)


def is_set() -> bool:
    """Whether this process was told to act at some point."""
    return _plan is not None


@dataclass(frozen=True, slots=True)
class Order:
    """What to do where. ValueError from `parse` for what cannot be understood."""

    name: str
    number: signal.Signals
    nth: int

    @classmethod
    def parse(cls, text: str) -> Order:
        name, _, rest = text.strip().partition(":")
        action, _, nth = rest.partition(":")
        if action not in _SIGNALS or not name or (nth and not nth.isdecimal()):
            raise ValueError(f"{VARIABLE} says {text!r}, not NAME:kill or NAME:freeze and perhaps :NTH")
        return cls(name, _SIGNALS[action], int(nth or 1))

    def carry_out(self) -> None:
        os.kill(os.getpid(), self.number)


class _Plan(Protocol):
    def reach(self, name: str) -> None: ...


class _Direct:
    """The variable says it itself."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._left = order.nth

    def reach(self, name: str) -> None:
        if name == self._order.name:
            self._left -= 1
            if self._left == 0:
                self._order.carry_out()


class _InFile:
    """A file says it, as soon as there is one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: object = None
        self._times = 0

    def reach(self, name: str) -> None:
        try:
            text, known_as = self._path.read_text(), self._path.stat().st_ino
        except FileNotFoundError:
            return
        if not text or name != (order := Order.parse(text)).name:
            return
        if self._seen != (text, known_as):
            self._seen, self._times = (text, known_as), 0
        self._times += 1
        if self._times < order.nth:
            return
        try:
            self._path.rename(f"{self._path}.{os.getpid()}")
        except FileNotFoundError:  # another process was first
            return
        order.carry_out()


def _plan_from(text: str | None) -> _Plan | None:
    if not text:
        return None
    return _InFile(Path(text)) if text.startswith("/") else _Direct(Order.parse(text))


_plan = _plan_from(os.environ.get(VARIABLE))
