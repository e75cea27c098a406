"""A whole Muster for the demo alone: a folder and a port of its own, and nothing left of it in the end."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from examples.demo.submitted import NODES
from workers.stack import Stack, StackFailed, StackOptions
from workers.stack.members import end_members

_MEMBER_GRACE_SECONDS = 2.0
_GONE_SECONDS = 5.0
_LAST_LINES = 5


@contextmanager
def private_folder() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="muster-demo-", dir="/tmp"))
    # As root PostgreSQL runs as another user, who has to pass through.
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def private_stack(folder: Path) -> Iterator[Stack]:
    """The stack on `folder`, ready. However it is left, its members and its processes are ended.

    Raises StackFailed, with the last words of its processes, whose logs are gone a moment later.
    """
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    stack = Stack(StackOptions(data=folder / "data", port=0, nodes=NODES, environ=environ))
    try:
        with stack:
            stack.wait_ready()
            yield stack
    except StackFailed as error:
        raise StackFailed(f"{error}\n{_last_words(stack.options.logs)}") from error
    finally:
        # Members outlive a stack by design; these have nobody to come back to.
        if (folder / "data").exists():
            end_members(folder / "data", grace_seconds=_MEMBER_GRACE_SECONDS)


def _last_words(logs: Path) -> str:
    ends = {
        log.stem: log.read_text(errors="replace").splitlines()[-_LAST_LINES:] for log in logs.glob("*.log")
    }
    return "\n".join(f"{name}: {line}" for name, lines in sorted(ends.items()) for line in lines)


def processes_of(folder: Path) -> Sequence[str]:
    """What still runs of a stack on `folder`, a few seconds after it was stopped. Changes nothing."""
    deadline = time.monotonic() + _GONE_SECONDS
    while (found := _naming(str(folder))) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def _naming(folder: str) -> Sequence[str]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and _names(process, folder):
                found.append(f"{process.name()} (pid {process.pid})")
        except psutil.Error:
            continue  # ended meanwhile, or another user's
    return found


def _names(process: psutil.Process, folder: str) -> bool:
    """Whether its command, its environment or the folder that it works in has `folder` in it."""
    told = [*process.cmdline(), *process.environ().values(), process.cwd()]
    return any(folder in text for text in told if text)
