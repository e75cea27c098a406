"""Processes that are nobody's members and look much like some: none may be ended or told anything."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.e2e.stacks import wait_for
from workers.embedded.identity import ProcessIdentity, find_identity
from workers.launchers.local.processes import MARK, OWNER

#: Takes note of every signal that can be caught, and goes on. Its pid is chosen: clone3 with set_tid, once
#: no process group and no session is named by it either. Its parent only waits.
_CHOSEN = """
import ctypes, errno, os, signal, struct, sys, time
wanted = (ctypes.c_int * 1)(int(sys.argv[1]))
fields = [0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, ctypes.addressof(wanted), 1, 0]
arguments = ctypes.create_string_buffer(struct.pack("11Q", *fields))
libc = ctypes.PyDLL(None, use_errno=True)
gives_up_at = time.monotonic() + 10
while (pid := libc.syscall(435, arguments, 88)) < 0 and ctypes.get_errno() == errno.EEXIST:
    if time.monotonic() > gives_up_at: break
    time.sleep(0.05)
if pid < 0:
    sys.exit(os.strerror(ctypes.get_errno()))
if pid > 0:
    os.waitpid(pid, 0)
    sys.exit()
def note(number, frame): open(sys.argv[2], "a").write(f"{number}\\n")
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
    signal.signal(number, note)
open(sys.argv[2], "w").close()
while True: time.sleep(60)
"""


@contextmanager
def bystanders(folder: Path) -> Iterator[None]:
    """Some stand by in the block: one with a member's command, in a folder of the test, and members of
    another Muster, with keys that this one uses, too. All must be alive, and untouched, at its end."""
    command = [
        "sh",
        "-c",
        f'trap "echo told >> {folder}/told" TERM HUP INT USR1; while :; do sleep 0.2; done',
    ]
    marks = [{}, *({MARK: f"{unit << 20}/1/1/0", OWNER: "/elsewhere"} for unit in (1, 2, 3))]
    with ExitStack() as stack:
        for mark in marks:
            stack.enter_context(innocent(command, environ=mark))
        yield
    assert not (folder / "told").exists(), "a signal was sent to a process that belongs to nobody"


@contextmanager
def innocent(command: list[str], *, environ: Mapping[str, str] | None = None) -> Iterator[ProcessIdentity]:
    """One process that has to live through the block."""
    process = subprocess.Popen(command, env={**os.environ, **(environ or {})}, start_new_session=True)
    try:
        found = find_identity(process.pid)
        assert found is not None
        yield found
        assert process.poll() is None, f"{command} was ended, and belongs to nobody"
    finally:
        # With what the shell had started; before its pid is free again.
        if process.returncode is None:
            end_group(process.pid)
        process.wait()


def end_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@contextmanager
def with_pid_of(pids: list[int], folder: Path) -> Iterator[list[Path]]:
    """Processes that get these pids, which are free, as the kernel would hand them out again one day. The
    files say which signals each has got. Skips where a pid cannot be chosen."""
    if platform.system() != "Linux" or platform.machine() != "x86_64" or os.geteuid() != 0:
        pytest.skip("only root may choose a pid, and only on Linux")
    with ExitStack() as stack:
        notes = []
        for pid in pids:
            wait_for(lambda pid=pid: None if Path(f"/proc/{pid}").exists() else True, f"{pid} is free")  # type: ignore[misc]
            notes.append(folder / f"signals.{pid}")
            stack.enter_context(_chosen(pid, notes[-1]))
        yield notes


@contextmanager
def _chosen(pid: int, note: Path) -> Iterator[None]:
    command = [sys.executable, "-S", "-c", _CHOSEN, str(pid), str(note)]
    parent = subprocess.Popen(command, start_new_session=True)
    try:
        wait_for(lambda: True if note.exists() or parent.poll() is not None else None, "it is there")
        assert parent.poll() is None, f"the pid {pid} could not be had"
        yield
        assert parent.poll() is None, f"who had got the pid {pid} was ended"
    finally:
        if parent.returncode is None:
            end_group(parent.pid)
        parent.wait()
