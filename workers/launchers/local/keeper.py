"""Keeps one running member: copies its output, ends it when told, and waits until nothing of it is left."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from datetime import datetime
from pathlib import Path

from service.clock import Clock
from workers.launchers.local import durable
from workers.launchers.local.gate import IGNORED
from workers.launchers.local.log_pump import LogPump
from workers.launchers.local.prctl import HAS_SUBREAPER
from workers.launchers.local.processes import Process, ProcessTable, send_signal, signal_group
from workers.launchers.local.records import End

#: Tells a supervisor to look for its stop order.
LOOK = signal.SIGUSR1
_KILL_AGAIN_SECONDS = 0.02
_KILL_AGAIN_AT_MOST_SECONDS = 1.0


class Alarm:
    """Signals as something to wait for. Made before there is a child or a record to be told about."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, LOOK):
            signal.signal(number, lambda *_: None)
        # Whoever ends the processes of this machine one by one should leave this one to see what they do.
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)

    def fileno(self) -> int:
        return self._reader.fileno()

    def clear(self) -> None:
        try:
            while self._reader.recv(256):
                pass
        except BlockingIOError:
            return


class Keeper:
    """The member `pid` is a child of this process, which is the subreaper of all its descendants."""

    def __init__(
        self, pid: int, mark: str, *, owner: str, pump: LogPump, stop_order: Path, clock: Clock
    ) -> None:
        self._pid = pid
        self._mark = mark
        self._owner = owner
        self._pump = pump
        self._stop_order = stop_order
        self._clock = clock
        self._exit_code: int | None = None
        self._ended_at: datetime | None = None
        self._has_children = True
        self._was_told = False
        self._kill_at: float | None = None
        self._kill_again_seconds = _KILL_AGAIN_SECONDS

    def keep(self, alarm: Alarm, source: int) -> End:
        """Return how the member ended, once no process of it is left."""
        poll = select.poll()
        poll.register(alarm, select.POLLIN)
        poll.register(source, select.POLLIN)
        was_alarmed = True
        while True:
            if was_alarmed:
                self._reap()
                self._take_order()
            if self._exit_code is not None and not self._is_anyone_left():
                return self._conclude()
            if is_killing := self._is_time_to_kill():
                self._kill_all()
            was_alarmed = False
            for descriptor, _ in poll.poll(self._wait_milliseconds(is_killing)):
                if descriptor == alarm.fileno():
                    was_alarmed = True
                    alarm.clear()
                elif self._pump.copy() == 0:
                    poll.unregister(source)

    def _reap(self) -> None:
        """Take note of ended children: the member, and orphans that became ours."""
        while self._has_children:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._has_children = False
                return
            if pid == 0:
                return
            if pid == self._pid:
                code = os.waitstatus_to_exitcode(status)
                self._exit_code = code if code >= 0 else 128 - code
                self._ended_at = self._clock.now()

    def _is_anyone_left(self) -> bool:
        return self._has_children if HAS_SUBREAPER else bool(self._list_processes())

    def _take_order(self) -> None:
        """Obey the stop order once: SIGTERM now, SIGKILL after its grace, neither set back later."""
        if self._kill_at is not None or not (lines := durable.read_lines(self._stop_order)):
            return
        self._kill_at = time.monotonic() + float(lines[0])
        self._was_told = self._exit_code is None
        if not self._was_told:
            return
        # The group at once, then who has left it; nobody twice, since some take a second one as "at once".
        signal_group(self._pid, signal.SIGTERM)
        signal_group(self._pid, signal.SIGCONT)
        for process in self._list_processes():
            if process.group != self._pid:
                send_signal(process.id, signal.SIGTERM)

    def _is_time_to_kill(self) -> bool:
        """What a member leaves behind is killed at once; if it was told to stop it may use up the grace."""
        if self._was_told or self._exit_code is None:
            return self._kill_at is not None and time.monotonic() >= self._kill_at
        return True

    def _kill_all(self) -> None:
        for process in self._list_processes():
            send_signal(process.id, signal.SIGKILL)

    def _list_processes(self) -> list[Process]:
        table = ProcessTable()
        found = table.descendants(os.getpid())
        if not HAS_SUBREAPER:
            found += [process for process, mark in table.marks(self._owner) if mark == self._mark]
        return found

    def _wait_milliseconds(self, is_killing: bool) -> float | None:
        if is_killing or (self._exit_code is not None and not HAS_SUBREAPER):
            self._kill_again_seconds = min(self._kill_again_seconds * 1.5, _KILL_AGAIN_AT_MOST_SECONDS)
            return self._kill_again_seconds * 1000
        if self._kill_at is None:
            return None
        return max(self._kill_at - time.monotonic(), 0) * 1000 + 1

    def _conclude(self) -> End:
        self._pump.drain()
        self._pump.close()
        assert self._exit_code is not None
        assert self._ended_at is not None
        details = [_name_signal(self._exit_code), self._pump.failure and f"output lost: {self._pump.failure}"]
        return End(
            ended_at=self._ended_at,
            exit_code=self._exit_code,
            was_told_to_stop=self._was_told,
            detail="; ".join(filter(None, details)) or None,
        )


def _name_signal(exit_code: int) -> str | None:
    if exit_code <= 128 or exit_code - 128 not in signal.valid_signals():
        return None
    return f"ended by {signal.Signals(exit_code - 128).name}"
