"""A kill at a point, of whoever comes there or of a store meanwhile, and the wait until it is there again."""

from __future__ import annotations

from collections.abc import Callable

import psutil

from tests.e2e.stacks import Up, wait_for
from tests.faults import faults
from tests.faults.crash_point import wait_killed
from tests.faults.strikes import S, Strike

#: Who comes to the points that are named after another part of the code.
_PART = {"launcher": "dispatcher", **{part: part for part in faults.SERVICES}}


def strike_at(strike: Strike[S], lead_up: Callable[[Strike[S]], object]) -> None:
    """Have what `lead_up` leads to end whoever comes to the point of the strike; then what it put into
    `afterwards`."""
    try:
        lead_up(strike)
        pid = strike.trial.point.wait_struck()
        wait_killed(pid)
        part = _PART.get(strike.point.partition(".")[0])
        if part is not None:
            wait_for(lambda: _is_again(strike.trial.up, part, pid), f"{part} is started again")
    finally:
        strike.trial.point.clear()
        for undo in strike.afterwards:
            undo()


def lose_store_at(strike: Strike[S], lead_up: Callable[[Strike[S]], object], *, store: str) -> None:
    """Have what `lead_up` leads to stop whoever comes to the point of the strike, and kill a store meanwhile:
    whoever goes on then finds another one behind its connections."""
    strike.action = "freeze"
    try:
        lead_up(strike)
        with strike.frozen():
            faults.kill(strike.trial.up, store)
        strike.trial.assert_recovers()
    finally:
        strike.trial.point.clear()
        for undo in strike.afterwards:
            undo()


def _is_again(up: Up, part: str, killed: int) -> bool | None:
    try:
        present = up.identity(part)
    except (OSError, ValueError):
        return None
    return True if present.pid != killed and psutil.pid_exists(present.pid) else None
