"""Faults that are done to the processes of a running stack, and what the processes spend meanwhile."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil
import redis

from tests.e2e.stacks import Up, wait_for
from tests.faults.members import find_marks, owner_of
from tests.faults.witness import connect
from workers.embedded.identity import ProcessIdentity, is_alive
from workers.stack.process import ServiceProcess

SERVICES = ("api", "worker", "dispatcher", "ticker")
STORES = ("postgres", "valkey")
#: What the API calls them.
KIND = {"postgres": "PostgreSQL", "valkey": "Redis"}

_SPAWNER = "workers.launchers.local.spawner"


def freeze(identity: ProcessIdentity) -> list[int]:
    """SIGSTOP a process and everything below it; the pids, for `thaw`."""
    process = psutil.Process(identity.pid)
    process.suspend()
    pids = [process.pid]
    for child in process.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            child.suspend()
            pids.append(child.pid)
    return pids


def thaw(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@contextmanager
def frozen(up: Up, part: str) -> Iterator[None]:
    """A part stands still in the block."""
    pids = freeze(up.identity(part))
    try:
        yield
    finally:
        thaw(pids)


@contextmanager
def gone(up: Up, *parts: str) -> Iterator[None]:
    """Parts are killed, and not started again before the end of the block."""
    up.process.send_signal(signal.SIGSTOP)
    killed = {part: up.identity(part) for part in parts}
    try:
        for identity in killed.values():
            os.kill(identity.pid, signal.SIGKILL)
        yield
    finally:
        up.process.send_signal(signal.SIGCONT)
    for part, identity in killed.items():
        wait_back(up, part, identity)


def kill(up: Up, *parts: str) -> None:
    """SIGKILL parts at once, and wait until each is there again."""
    killed = {part: up.identity(part) for part in parts}
    for identity in killed.values():
        os.kill(identity.pid, signal.SIGKILL)
    for part, identity in killed.items():
        wait_back(up, part, identity)


def wait_back(up: Up, part: str, killed: ProcessIdentity) -> None:
    """Wait until somebody else runs as `part`."""

    def look() -> bool | None:
        try:
            present = up.identity(part)
        except FileNotFoundError:
            return None
        return True if present != killed and is_alive(present) else None

    wait_for(look, f"{part} is started again")


def empty_redis(up: Up) -> None:
    """FLUSHALL."""
    with redis.Redis(unix_socket_path=str(up.data / "sockets" / "valkey" / "valkey.sock")) as client:
        client.flushall()


class Spending:
    """CPU seconds of the stack's own processes, without the stores, since this object was made."""

    def __init__(self, up: Up) -> None:
        self._processes = {part: psutil.Process(up.identity(part).pid) for part in SERVICES}
        self._before = {part: _cpu_seconds(process) for part, process in self._processes.items()}
        self._began = time.monotonic()

    def shares(self) -> dict[str, float]:
        """For each part: the share of one processor that it took."""
        seconds = time.monotonic() - self._began
        return {
            part: (_cpu_seconds(process) - self._before[part]) / seconds
            for part, process in self._processes.items()
        }


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@contextmanager
def second(up: Up, part: str) -> Iterator[ServiceProcess]:
    """One more process of the same kind, beside the stack's own, of which none need run just now."""
    folder = up.data.parent / f"second-{part}"
    folder.mkdir(exist_ok=True)
    process = ServiceProcess(part, logs=folder, records=folder)
    # All of the stack's have the same.
    process.environment = psutil.Process(up.identity("api").pid).environ()
    process.start()
    try:
        yield process
    finally:
        process.stop()


def spawner(up: Up) -> psutil.Process:
    """The warm process from which members are forked."""
    children = psutil.Process(up.identity("dispatcher").pid).children()
    return next(child for child in children if _SPAWNER in child.cmdline())


def member(up: Up, group_id: str, *, rank: int) -> psutil.Process:
    """The command's own process of a member that runs."""
    with connect(up.data) as conn:
        found = conn.execute(
            "SELECT u.id FROM units u JOIN groups g ON g.id = u.group_id WHERE g.public_id = %s", [group_id]
        ).fetchone()
    assert found is not None
    marked = {process.id.pid: key for process, key in find_marks(owner_of(up.data))}
    for pid, key in marked.items():
        if (key.unit_id, key.member) != (found[0], rank):
            continue
        with suppress(psutil.NoSuchProcess):  # it starts short-lived ones of its own
            process = psutil.Process(pid)
            if process.ppid() not in marked:
                return process
    raise ProcessLookupError(f"member {rank} of {group_id} does not run")


def supervisor(up: Up, group_id: str, *, rank: int) -> psutil.Process:
    """The process that keeps a member that runs."""
    return supervisor_of(member(up, group_id, rank=rank))


def supervisor_of(child: psutil.Process) -> psutil.Process:
    """What a supervisor that was killed left is a child of whoever takes orphans here, who is nobody's to
    kill. Raises ProcessLookupError then."""
    parent = psutil.Process(child.ppid())
    if _SPAWNER not in parent.cmdline():  # supervisors are forks of it
        raise ProcessLookupError(f"the supervisor of {child.pid} was killed before")
    return parent


def kill_everything(up: Up) -> None:
    """SIGKILL the stack, its stores, and everything of its members, supervisors first."""
    parts = [up.identity(part) for part in (*SERVICES, *STORES)]
    marked = [process for process, _ in find_marks(owner_of(up.data))]
    pids = {process.id.pid for process in marked}
    supervisors = set()
    for pid in pids:
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            supervisors.add(supervisor_of(psutil.Process(pid)).pid)
    up.process.kill()
    for pid in (*(part.pid for part in parts), *supervisors, *pids):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    up.process.wait()
