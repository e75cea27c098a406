"""One process of the stack: this interpreter with a command of `muster`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from workers.embedded import child
from workers.embedded.identity import find_identity
from workers.embedded.log_file import log_size, open_log, read_tail
from workers.embedded.record import end_leftover, erase_record, write_record
from workers.stack.errors import StackFailed

_GRACE_SECONDS = 15.0


class ServiceProcess:
    """`muster NAME` in a session of its own, so that Ctrl-C reaches the stack alone.

    What it writes is appended to `logs/NAME.log`; who runs is recorded in `records/NAME`.
    """

    def __init__(self, name: str, *, logs: Path, records: Path) -> None:
        self.name = name
        self.log = logs / f"{name}.log"
        self._record = records / name
        self._process: subprocess.Popen[bytes] | None = None
        self.environment: Mapping[str, str] = {}

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process; the caller sees by `is_running` whether it stays."""
        self._record.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._process = self._spawn()
        if identity := find_identity(self._process.pid):
            write_record(self._record, identity, stop_signal=signal.SIGTERM)

    def run(self, *, seconds: float) -> None:
        """Run the process to its end. Raises StackFailed, with the end of its log, unless it ends well."""
        written = log_size(self.log)
        self.start()
        assert self._process is not None
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            self.stop()
        if code != 0:
            tail = read_tail(self.log, since=written)
            raise StackFailed(f"`muster {self.name}` {describe_end(code)}:\n{tail}")

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if that was not enough."""
        if self._process is not None:
            child.stop(self._process, signal.SIGTERM, grace_seconds=_GRACE_SECONDS)
            erase_record(self._record)

    def end_leftover(self) -> bool:
        """End what an earlier, killed stack left; True if there was something."""
        return end_leftover(self._record, grace_seconds=_GRACE_SECONDS)

    def last_words(self) -> str:
        """How the process ended, and the line that says why, if there is one."""
        code = self._process.poll() if self._process else None
        lines = read_tail(self.log).splitlines()
        # What was logged in order is no last word; what the interpreter says when it gives up is.
        is_told = code and code > 0 and lines and not lines[-1].startswith("{")
        return f"{describe_end(code)}: {lines[-1]}" if is_told else describe_end(code)

    def _spawn(self) -> subprocess.Popen[bytes]:
        self.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        output = open_log(self.log)
        try:
            # -P: a folder `service` where the caller stands is not ours.
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "service.cli", self.name],
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        finally:
            os.close(output)


def describe_end(code: int | None) -> str:
    """Say in words how a process ended (`code` as subprocess gives it; None: it was not done in time)."""
    if code is None:
        return "was not done in time"
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
