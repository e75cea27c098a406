"""Members that do not end as they should, in a running stack: what they leave behind, what ignores SIGTERM,
what not even SIGKILL ends, and what a killed supervisor leaves."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests import servers
from tests.e2e.stacks import Up, data_folder, wait_for, wait_gone, wait_status
from tests.faults import faults
from tests.faults.bystanders import bystanders
from tests.faults.journals import Body
from tests.faults.trial import load_on, start
from workers.embedded.identity import ProcessIdentity, find_identity

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(180), pytest.mark.slow]

#: What survives SIGKILL for so long loses its devices; a minute, unless it is set.
PATIENCE_SECONDS = 2.0
_FREEZER = Path("/sys/fs/cgroup/freezer")

#: Waits for `open`; everything below it ignores SIGTERM.
_STUBBORN = 'trap "" TERM; while [ ! -e "$1" ]; do sleep 0.05; done'
#: A grandchild in a session of its own that notes its pid in the file after it, ignores what it can, and
#: has nothing of its environment but the mark of whose it is.
_DAEMON = 'setsid sh -c \'trap "" TERM HUP INT; echo $$ > "$0.new"; mv "$0.new" "$0"; sleep 600\' "{note}" &'
#: Waits in the kernel for a child that never executes anything: only SIGKILL ends that.
_VFORK = """
import ctypes, os, time
libc = ctypes.PyDLL(None)
open("{note}.new", "w").write(f"{{os.getpid()}}\\n"); os.rename("{note}.new", "{note}")
if libc.vfork() == 0:
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    with servers.server_folder() as folder, data_folder(folder) as data:
        stack = start(data, MUSTER_KILL_PATIENCE_SECONDS=str(PATIENCE_SECONDS))
        yield stack
        assert stack.stop() == 0


def noted(path: Path) -> ProcessIdentity:
    """The process that wrote its pid there."""

    def look() -> ProcessIdentity | None:
        return find_identity(int(path.read_text())) if path.exists() else None

    return wait_for(look, f"{path.name} runs")


def with_grace(body: Body, grace: str) -> Body:
    return body | {"checkpoint": {"grace": grace}}


def test_what_left_its_session_ends_with_its_member(up: Up, tmp_path: Path) -> None:
    """Whether the member ends by itself or is told to."""
    with bystanders(tmp_path), load_on(up, tmp_path) as trial:
        notes = [tmp_path / "of-one-that-ends", tmp_path / "of-one-that-is-cancelled"]
        daemons = [_DAEMON.format(note=note) for note in notes]
        ending = trial.submit(trial.journal.doing(f"{daemons[0]} sleep 1", name="ending"))
        staying = trial.run(
            with_grace(trial.journal.doing(f"{daemons[1]} {_STUBBORN}", name="staying"), "1s"), "Cancelled"
        )
        left = [noted(note) for note in notes]
        wait_status(trial.client, ending, "Succeeded")
        wait_gone(left[0])
        trial.client.cancel(staying)
        wait_status(trial.client, staying, "Cancelled")
        wait_gone(left[1])
        trial.assert_unharmed()


def test_what_ignores_sigterm_has_its_grace_and_no_more(up: Up, tmp_path: Path) -> None:
    with bystanders(tmp_path), load_on(up, tmp_path) as trial:
        group = trial.run(with_grace(trial.journal.doing(_STUBBORN, members=2), "2s"), "Cancelled")
        member = faults.member(up, group, rank=1)
        trial.client.cancel(group)
        # It was told; until its grace is over it runs.
        wait_for(lambda: True if trial.client.get(group).status == "Evicting" else None, "it is told")
        assert member.is_running()
        wait_status(trial.client, group, "Cancelled")
        assert [each.exit_code for each in trial.client.members(group).list()] == [128 + signal.SIGKILL] * 2
        assert not member.is_running()
        trial.assert_unharmed()


def test_one_that_waits_in_the_kernel_ends_by_sigkill(up: Up, tmp_path: Path) -> None:
    """The parent of a vfork sleeps without interruption (D): SIGTERM does not reach it."""
    with bystanders(tmp_path), load_on(up, tmp_path) as trial:
        program, note = tmp_path / "program.py", tmp_path / "parent"
        program.write_text(_VFORK.format(note=note))
        work = f"exec {sys.executable} -S {program}"
        group = trial.run(with_grace(trial.journal.doing(work), "1s"), "Cancelled")
        parent = noted(note)
        wait_for(lambda: _is_uninterruptible(parent.pid), "it sleeps without interruption")
        trial.client.cancel(group)
        wait_status(trial.client, group, "Cancelled")
        wait_gone(parent)
        trial.assert_unharmed()


def test_one_that_survives_sigkill_frees_its_group_and_keeps_its_device(up: Up, tmp_path: Path) -> None:
    """X5: the group ends when the patience is over; the device is nobody's until the process is gone."""
    with bystanders(tmp_path), load_on(up, tmp_path) as trial:
        body = with_grace(trial.journal.long_gang(2, name="unkillable"), "1s")
        group = trial.run(body, "Cancelled")
        member = faults.member(up, group, rank=1)
        device = int(member.environ()["CUDA_VISIBLE_DEVICES"])
        with kept_in_the_kernel(member.pid):
            trial.client.cancel(group)
            wait_status(trial.client, group, "Cancelled")
            assert _is_uninterruptible(member.pid)
            [node] = trial.client.nodes.list()
            lost = [gpu.index for gpu in node.gpus if gpu.is_lost]
            assert lost == [device]
            # While it is lost nobody gets it, and the books agree about that.
            trial.assert_recovers()
            before = len(trial.stream.submits)
            wait_for(lambda: True if len(trial.stream.submits) >= before + 8 else None, "more groups came")
            assert device not in _devices_in_use(up, but=member.pid)
            assert trial.client.inventory().gpus_lost == 1
        wait_for(lambda: True if not member.is_running() else None, "the kernel lets it end")
        wait_for(lambda: True if trial.client.inventory().gpus_lost == 0 else None, "the device is found")
        trial.assert_unharmed()


def test_a_killed_supervisor_takes_all_of_its_member_along(up: Up, tmp_path: Path) -> None:
    """Before the next generation begins, which the witness watches; also what had left the session."""
    with bystanders(tmp_path), load_on(up, tmp_path) as trial:
        note = tmp_path / "daemon"
        work = f"{_DAEMON.format(note=note)} {_STUBBORN}"
        group = trial.run(with_grace(trial.journal.doing(work, members=2), "1s"))
        daemons = {noted(note)}
        faults.supervisor(up, group, rank=0).kill()

        def again() -> bool | None:
            found = trial.client.get(group)
            return True if (found.status, found.generation) == ("Running", 2) else None

        wait_for(again, "it runs again")
        for daemon in daemons - {noted(note)}:
            wait_gone(daemon)
        found = trial.client.get(group)
        assert (found.attempt, found.restarts_used) == (1, 0)
        trial.assert_unharmed()


def _is_uninterruptible(pid: int) -> bool | None:
    return True if psutil.Process(pid).status() == psutil.STATUS_DISK_SLEEP else None


def _devices_in_use(up: Up, *, but: int) -> set[int]:
    from tests.faults.members import find_marks, owner_of

    found = set()
    for process, _ in find_marks(owner_of(up.data)):
        try:
            if process.id.pid != but:
                found.add(int(psutil.Process(process.id.pid).environ()["CUDA_VISIBLE_DEVICES"]))
        except (psutil.Error, KeyError):
            continue  # ended meanwhile
    return found


@contextmanager
def kept_in_the_kernel(pid: int) -> Iterator[None]:
    """SIGKILL waits in the block, as it does behind a driver that hangs: the freezer of cgroup v1 holds the
    process in an uninterruptible sleep."""
    if not os.access(_FREEZER / "cgroup.procs", os.W_OK) or os.geteuid() != 0:
        pytest.skip("holding a process in the kernel needs root and the freezer of cgroup v1")
    group = _FREEZER / f"muster-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "cgroup.procs").write_text(str(pid))
        (group / "freezer.state").write_text("FROZEN")
        wait_for(
            lambda: True if (group / "freezer.state").read_text().strip() == "FROZEN" else None, "it is held"
        )
        yield
    finally:
        (group / "freezer.state").write_text("THAWED")
        wait_for(lambda: True if _is_empty(group) else None, "nobody is in the group any more")
        group.rmdir()


def _is_empty(group: Path) -> bool:
    """What still runs goes back to where it was before."""
    for pid in (group / "cgroup.procs").read_text().split():
        try:
            (_FREEZER / "cgroup.procs").write_text(pid)
        except ProcessLookupError:
            continue
    return not (group / "cgroup.procs").read_text().split()
