"""The launcher's end of the spawner: starts it, orders members from it, hears how that went."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import workers
from service import points
from service.points import reach
from workers.launchers.base import LauncherUnreachable
from workers.launchers.local.layout import Layout
from workers.launchers.local.orders import Report, StartOrder, parse_reports, send_orders
from workers.launchers.local.processes import read_boot_id

#: Who has said nothing for so long is frozen, not slow.
SILENCE_SECONDS = 20.0
_STOP_SECONDS = 5.0


class Silence(LauncherUnreachable):
    """Nobody reports, and nobody has ended."""


class WarmSpawner:
    """Starts its process at once, so that it is warm when it is needed, and anew when it was killed or
    has said nothing for `silence_seconds`."""

    def __init__(self, layout: Layout, bells: Path, *, silence_seconds: float = SILENCE_SECONDS) -> None:
        self._layout = layout
        self._bells = bells
        self._silence_seconds = silence_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._connect()

    @property
    def pid(self) -> int:
        """Its process. ProcessLookupError between two of them."""
        if self._process is None:
            raise ProcessLookupError("no spawner was started")
        return self._process.pid

    def start(self, orders: Sequence[StartOrder]) -> list[Report]:
        """Have members started. One that is missing in the answer has no supervisor that could start it.

        Raises LauncherUnreachable if nothing answers for a while; then it is not known who was started,
        and the next order goes to another spawner: a frozen one would never take it.
        """
        reader, writer = os.pipe()
        try:
            try:
                self._send(orders, writer)
            finally:
                os.close(writer)
            return _collect(reader, len(orders), silence_seconds=self._silence_seconds)
        except Silence:
            self._kill()
            raise
        finally:
            os.close(reader)

    def stop(self) -> None:
        """End the spawner. Supervisors live on."""
        if self._control:
            self._control.close()
            self._control = None
        if self._process:
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def _kill(self) -> None:
        if self._process:
            self._process.kill()
        self.stop()

    def _send(self, orders: Sequence[StartOrder], writer: int) -> None:
        for is_last in (False, True):
            try:
                send_orders(self._connect(), orders, reports=writer)
                reach("launcher.orders-sent")
                return
            except OSError as error:  # it was killed; half an order is never carried out
                self.stop()
                if is_last:
                    raise LauncherUnreachable(f"the spawner takes no orders: {error}") from error

    def _connect(self) -> socket.socket:
        if self._process and self._process.poll() is not None:
            self.stop()
        if self._control is None:
            ours, theirs = socket.socketpair()
            with theirs:
                self._process = _start_process(theirs.fileno(), self._layout, bells=self._bells)
            ours.settimeout(self._silence_seconds)
            self._control = ours
            reach("launcher.spawner-started")
        return self._control


def _start_process(control: int, layout: Layout, *, bells: Path) -> subprocess.Popen[bytes]:
    """Start the spawner with an environment of its own: nothing of the service's is passed on."""
    environment = {"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONPATH": str(_import_root())}
    if point := os.environ.get(points.VARIABLE):
        environment[points.VARIABLE] = point
    arguments = [str(control), str(layout.root), str(bells), read_boot_id()]
    log = os.open(layout.supervisor_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "workers.launchers.local.spawner", *arguments],
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[control],
            start_new_session=True,
        )
    finally:
        os.close(log)


def _import_root() -> Path:
    assert workers.__file__
    return Path(workers.__file__).resolve().parent.parent


def _collect(reader: int, expected: int, *, silence_seconds: float) -> list[Report]:
    """Read reports until all are there, or nobody is left who could write one."""
    lines = b""
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    while lines.count(b"\n") < expected:
        if not poll.poll(silence_seconds * 1000):
            raise Silence(f"a supervisor has said nothing for {silence_seconds:.0f} s")
        part = os.read(reader, 1 << 16)
        if not part:
            break
        lines += part
    return list(parse_reports(lines))
