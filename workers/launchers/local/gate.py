"""The member's own process: forked behind a gate, so that its record is there before it executes (X3)."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterable
from typing import NoReturn

from workers.launchers.local.orders import StartOrder
from workers.launchers.local.prctl import die_with_parent

#: What a supervisor ignores, or Python for it. Its member gets the usual meaning back.
IGNORED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGPIPE,
    signal.SIGXFSZ,
)
_GO = b"g"
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126  # what a shell would answer


class GatedMember:
    """A forked process that waits for `open`, and ends at once if its supervisor is gone."""

    def __init__(self, order: StartOrder, *, output: int) -> None:
        go_reader, self._go = os.pipe()
        self._failure, failure_writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._go)
            os.close(self._failure)
            _become_member(order, output=output, go=go_reader, failure=failure_writer)
        os.close(go_reader)
        os.close(failure_writer)

    def open(self) -> str | None:
        """Let it execute its command, and wait until it did. Returns why it could not, if so."""
        try:
            os.write(self._go, _GO)
        except BrokenPipeError:  # killed meanwhile: how it ended is seen where it is reaped
            return None
        finally:
            os.close(self._go)
        failure = b""
        while part := os.read(self._failure, 4096):
            failure += part
        os.close(self._failure)
        return failure.decode() or None

    def abandon(self) -> None:
        """Let it end without having executed anything."""
        os.close(self._go)
        os.close(self._failure)
        os.waitpid(self.pid, 0)


def _become_member(order: StartOrder, *, output: int, go: int, failure: int) -> NoReturn:
    """Runs in the child. Nothing but the command ever leaves this function."""
    code = _NOT_EXECUTABLE
    try:
        os.setsid()
        reset_signals(IGNORED)
        # A member does not outlive its supervisor: nobody would see how it ends, and its output would
        # meet a closed pipe. It is ended plainly and reported as lost.
        die_with_parent()
        _connect(output)
        if os.read(go, 1) != _GO:
            os._exit(0)
        _execute(order)
    except OSError as error:
        code = _NOT_FOUND if error.errno == errno.ENOENT else _NOT_EXECUTABLE
        os.write(failure, _explain(error, order).encode())
    except ValueError as error:  # a NUL character, or one that no encoding has
        os.write(failure, f"cannot execute the command: {error}".encode())
    finally:
        os._exit(code)


def _execute(order: StartOrder) -> None:
    if not order.command:
        raise ValueError("the command is empty")
    os.chdir(order.workdir)
    os.execvpe(order.command[0], order.command, order.env)


def reset_signals(numbers: Iterable[int]) -> None:
    """Give signals their usual meaning: what a process ignores, its command would ignore, too."""
    for number in numbers:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _connect(output: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, source in enumerate((nothing, output, output)):
        os.dup2(source, descriptor)


def _explain(error: OSError, order: StartOrder) -> str:
    reason = error.strerror or str(error)
    if error.filename == order.workdir and not os.access(order.workdir, os.X_OK):
        return f"cannot enter the working directory {order.workdir!r}: {reason}"
    command = order.command[0]
    if error.errno == errno.ENOENT and "/" in command and os.access(command, os.F_OK):
        reason += " (its first line names an interpreter that is not there)"
    return f"cannot execute {command!r}: {reason}"
