"""The spawner: a small warm process that forks one supervisor for each member.

usage: python -m workers.launchers.local.spawner CONTROL ROOT BELLS BOOT_ID

CONTROL is the descriptor of a socket from which it takes orders. It ends with the launcher that
started it; its supervisors live on. It is single-threaded and imports next to nothing, so that a fork
is cheap and safe.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from pathlib import Path

from service.clock import SystemClock
from service.points import reach
from workers.launchers.base import Outcome
from workers.launchers.local import bell
from workers.launchers.local.gate import reset_signals
from workers.launchers.local.layout import Layout
from workers.launchers.local.orders import Report, StartOrder, receive_orders, write_report
from workers.launchers.local.supervisor import Surroundings, supervise

#: Rung when a supervisor ended otherwise than it should: look at all of them.
LOOK_AT_ALL = "*"


def main(arguments: list[str]) -> None:
    """Take orders until the launcher is gone."""
    descriptor, root, bells, boot_id = arguments
    control = socket.socket(fileno=int(descriptor))
    control.set_inheritable(False)
    around = Surroundings(Layout(Path(root)), Path(bells), boot_id, SystemClock())
    reset_signals(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE})
    signal.signal(signal.SIGCHLD, lambda *_: _reap(around.bells))
    gc.freeze()
    while received := receive_orders(control):
        orders, reports = received
        reach("spawner.orders-received")
        for order in orders:
            _fork(order, around, control=control, reports=reports)
        os.close(reports)
        del received, orders  # they hold secrets


def _fork(order: StartOrder, around: Surroundings, *, control: socket.socket, reports: int) -> None:
    try:
        pid = os.fork()
    except OSError as error:
        write_report(reports, Report(order.key, Outcome.REFUSED, f"no process could be made: {error}"))
        return
    if pid == 0:
        control.close()
        supervise(order, around, reports=reports)
    reach("spawner.supervisor-forked")


def _reap(bells: Path) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if status != 0:
            bell.ring(bells, LOOK_AT_ALL)


if __name__ == "__main__":
    main(sys.argv[1:])
