"""The members that a stopped stack left running on this machine, ended."""

from __future__ import annotations

import time
from pathlib import Path

from workers.launchers.base import MemberKey, MemberState
from workers.launchers.local.launcher import LocalLauncher

_POLL_SECONDS = 0.05
#: What survives SIGKILL for so long is told to the caller.
_KILL_SECONDS = 10.0


def end_members(data: Path, *, grace_seconds: float) -> tuple[int, int]:
    """End all live members: SIGTERM, SIGKILL after the grace. How many there were, and are left.

    The caller holds the lock of `data`, so no dispatcher is at work. Each generation is closed, so none of
    it can start again; their groups are not cancelled, and recover by their policy under the next stack.
    """
    launcher = LocalLauncher(data, lambda: ())
    try:
        live = _live(launcher)
        launcher.terminate(live, grace_seconds=grace_seconds)
        _wait_for_end(launcher, seconds=grace_seconds)
        generations = sorted({key.of for key in live})
        deadline = time.monotonic() + _KILL_SECONDS
        survivors = [key for result in launcher.close(generations) for key in result.survivors]
        while survivors and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            survivors = [key for result in launcher.close(generations) for key in result.survivors]
        return len(live), len(survivors)
    finally:
        launcher.stop()


def _wait_for_end(launcher: LocalLauncher, *, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while _live(launcher) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _live(launcher: LocalLauncher) -> list[MemberKey]:
    states = (MemberState.STARTING, MemberState.READY)
    return [seen.key for seen in launcher.observe() if seen.state in states]
