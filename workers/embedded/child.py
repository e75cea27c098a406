"""One server process: started in a session of its own, waited for, ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from workers.embedded.folders import ServerUser
from workers.embedded.log_file import open_log

_POLL_SECONDS = 0.02


class Rights(TypedDict):
    """Arguments of `subprocess` that make a child run as another user."""

    user: int | None
    group: int | None
    extra_groups: list[int] | None


# What a server needs of the environment. LANG and LC_* of the caller may name a locale that is missing.
ENVIRONMENT: Mapping[str, str] = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"}


class ServerFailed(Exception):
    """A server ended or did not answer; the message holds the end of its log."""


class ServerInUse(Exception):
    """A server of an earlier owner still serves this data folder."""


def spawn(command: Sequence[str | Path], *, user: ServerUser, log: Path) -> subprocess.Popen[bytes]:
    """Start `command` in a session of its own, so that Ctrl-C reaches its owner only.

    What it writes is appended to `log`, which its owner alone can read.
    """
    output = open_log(log)
    try:
        return subprocess.Popen(
            command,
            cwd="/",
            env=dict(ENVIRONMENT),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            **drop_rights(user),
        )
    finally:
        os.close(output)


def drop_rights(user: ServerUser) -> Rights:
    """Give the arguments of `subprocess` that make a child run as `user`."""
    if user.is_me:
        return Rights(user=None, group=None, extra_groups=None)
    return Rights(user=user.uid, group=user.gid, extra_groups=[])


def wait_until(is_ready: Callable[[], bool], process: subprocess.Popen[bytes], *, seconds: float) -> bool:
    """Wait for `is_ready`; False if the process ended first or the time ran out."""
    deadline = time.monotonic() + seconds
    while process.poll() is None:
        if is_ready():
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return False


def stop(process: subprocess.Popen[bytes], *signals: signal.Signals, grace_seconds: float) -> None:
    """Send each of `signals` in turn until the process has ended, at last SIGKILL."""
    for each in (*signals, signal.SIGKILL):
        if process.poll() is not None:
            return
        os.kill(process.pid, each)
        try:
            process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            continue
    process.wait()
