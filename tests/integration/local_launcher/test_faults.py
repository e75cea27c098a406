"""What is left when supervisors, the spawner, the dispatcher or the machine end in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from service import points
from tests.contract.subjects import LIVE, find, member, wait_for_end, wait_until
from tests.integration.local_launcher.bench import Bench, is_gone, python
from workers.launchers.base import (
    LauncherUnreachable,
    LaunchResult,
    MemberKey,
    MemberLaunch,
    MemberState,
    Outcome,
)
from workers.launchers.local import tombstones
from workers.launchers.local.bell import Bell
from workers.launchers.local.processes import ProcessId, find_process, is_alive, send_signal
from workers.launchers.local.spawner import LOOK_AT_ALL

ROOT = Path(__file__).parent.parent.parent.parent

FAMILY = """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            note("grandchild")
            time.sleep(60)
        note("child")
        time.sleep(60)
    note("member")
    time.sleep(60)
"""


def start_family(bench: Bench) -> tuple[MemberKey, list[ProcessId]]:
    """A member, its child in another session, and that one's child."""
    key = bench.run(FAMILY)
    return key, [bench.pid_of(name) for name in ("member", "child", "grandchild")]


def test_a_killed_supervisor_loses_its_member_when_all_of_it_is_gone(bench: Bench) -> None:
    key, family = start_family(bench)
    send_signal(bench.record(key).record.supervisor, signal.SIGKILL)
    seen = wait_for_end(bench.launcher, key)
    assert (seen.state, seen.exit_code) == (MemberState.LOST, None)
    assert seen.detail == "its supervisor was killed"
    assert seen.ended_at is not None
    assert all(is_gone(process) for process in family)


def test_a_killed_supervisor_is_told_by_its_spawner(bench: Bench) -> None:
    key = bench.run("time.sleep(60)")
    bell = Bell(bench.layout.root / "bells")
    try:
        send_signal(bench.record(key).record.supervisor, signal.SIGKILL)
        wait_until(lambda: LOOK_AT_ALL in bell.take(), seconds=3)
    finally:
        bell.close()


def test_a_supervisor_killed_without_any_launcher_is_found_later(bench: Bench) -> None:
    key, family = start_family(bench)
    bench.launcher.stop()
    send_signal(bench.record(key).record.supervisor, signal.SIGKILL)
    wait_until(lambda: is_gone(family[0]))  # a member does not outlive its supervisor
    assert not is_gone(family[2])
    bench.launcher = bench.open()
    seen = wait_for_end(bench.launcher, key)
    assert seen.state is MemberState.LOST
    assert all(is_gone(process) for process in family)


def test_close_ends_what_a_killed_supervisor_left(bench: Bench) -> None:
    key, family = start_family(bench)
    bench.launcher.stop()
    send_signal(bench.record(key).record.supervisor, signal.SIGKILL)
    wait_until(lambda: is_gone(family[0]))
    bench.layout.record(key).unlink()  # nothing but the mark tells whose they are
    bench.launcher = bench.open()
    bench.close(key)
    assert all(is_gone(process) for process in family)


def test_members_of_another_launcher_with_the_same_key_are_left_alone(bench: Bench) -> None:
    """Two Musters on one machine count their units alike."""
    key, family = start_family(bench)
    neighbour = bench.folder / "neighbour"
    neighbour.mkdir()
    other = Bench(neighbour)
    try:
        assert other.launcher.close([key.of])[0].is_closed  # no record of it here: only marks could tell
        assert [process for process in family if is_gone(process)] == []
    finally:
        other.end()


def test_close_answers_closed_only_when_everything_is_gone(bench: Bench) -> None:
    key, family = start_family(bench)
    bench.close(key)
    assert all(is_gone(process) for process in family)
    assert is_gone(bench.record(key).record.supervisor)
    seen = find(bench.launcher, key)
    assert seen is not None
    assert seen.state is MemberState.ENDED
    assert seen.was_told_to_stop


def test_close_ends_a_frozen_supervisor(bench: Bench) -> None:
    key, family = start_family(bench)
    supervisor = bench.record(key).record.supervisor
    send_signal(supervisor, signal.SIGSTOP)
    bench.close(key)
    assert all(is_gone(process) for process in [*family, supervisor])
    seen = find(bench.launcher, key)
    assert seen is not None
    assert seen.state is MemberState.LOST


@pytest.fixture
def innocent() -> Iterator[ProcessId]:
    """A process that is nobody's member, and must live to the end of the test."""
    process = subprocess.Popen(["sleep", "60"])
    found = find_process(process.pid)
    assert found is not None
    yield found.id
    was_alive = process.poll() is None
    process.kill()
    process.wait()
    assert was_alive, "a process was ended that belongs to nobody"


def leave_record(bench: Bench, key: MemberKey, **changes: object) -> None:
    """Leave the record of a member of an earlier launcher, changed."""
    pattern = bench.run("pass", unit_id=77 << 20)
    wait_for_end(bench.launcher, pattern)
    record, start, _ = [line for line in bench.layout.record(pattern).read_text().split("\n") if line]
    bench.layout.make_unit(key.unit_id)
    bench.layout.record(key).write_text(f"{json.dumps(json.loads(record) | changes)}\n{start}\n")


@pytest.mark.parametrize("is_other_boot", [False, True])
def test_who_got_the_pid_of_a_member_is_never_signalled(
    bench: Bench, innocent: ProcessId, is_other_boot: bool
) -> None:
    """The pids of a record belong to somebody else by now: with another start, or after another boot."""
    stale = MemberKey(5 << 20, 1, 0, 0)
    recorded = innocent if is_other_boot else (innocent.pid, str(int(innocent.start) - 1))
    boot = {"boot_id": "11111111-2222-3333-4444-555555555555"} if is_other_boot else {}
    leave_record(bench, stale, supervisor=recorded, member=recorded, **boot)
    bench.reopen()
    seen = find(bench.launcher, stale)
    assert seen is not None
    assert seen.state is MemberState.LOST
    assert seen.detail == ("the machine was started anew" if is_other_boot else "its supervisor was killed")
    assert seen.is_node_lost is is_other_boot
    bench.launcher.terminate([stale], grace_seconds=0)
    bench.close(stale)


def test_close_touches_nobody_who_got_the_pid_of_a_member(bench: Bench, innocent: ProcessId) -> None:
    """As above, but close is the first to see the record."""
    stale = MemberKey(5 << 20, 1, 0, 0)
    recorded = (innocent.pid, str(int(innocent.start) - 1))
    leave_record(bench, stale, supervisor=recorded, member=recorded)
    bench.close(stale)


def test_an_exit_before_the_boot_keeps_its_code(bench: Bench) -> None:
    key = bench.run("sys.exit(5)")
    wait_for_end(bench.launcher, key)
    bench.launcher.stop()
    path = bench.layout.record(key)
    path.write_text(path.read_text().replace(bench.record(key).record.boot_id, "another-boot"))
    bench.launcher = bench.open()
    seen = find(bench.launcher, key)
    assert seen is not None
    assert (seen.state, seen.exit_code) == (MemberState.ENDED, 5)


def test_a_killed_spawner_leaves_members_and_is_replaced(bench: Bench) -> None:
    key = bench.run("note('member'); time.sleep(60)")
    process = bench.pid_of("member")
    spawner = find_process(bench.launcher.spawner_pid)
    assert spawner is not None
    send_signal(spawner.id, signal.SIGKILL)
    wait_until(lambda: is_gone(spawner.id))
    later = bench.run("sys.exit(6)", unit_id=9 << 20)
    assert wait_for_end(bench.launcher, later).exit_code == 6
    assert is_alive(process)
    bench.launcher.terminate([key], grace_seconds=5)
    assert wait_for_end(bench.launcher, key).was_told_to_stop


def test_a_frozen_spawner_is_replaced_and_starts_nobody_late(bench: Bench) -> None:
    bench.launcher.stop()
    bench.launcher = bench.open(silence_seconds=1.0)
    earlier = bench.run("note('earlier'); time.sleep(60)")
    process = bench.pid_of("earlier")
    frozen = find_process(bench.launcher.spawner_pid)
    assert frozen is not None
    send_signal(frozen.id, signal.SIGSTOP)
    launch = member(python("note('late'); time.sleep(60)"), unit_id=9 << 20)
    with pytest.raises(LauncherUnreachable, match="said nothing for 1 s"):
        bench.start(launch)
    wait_until(lambda: is_gone(frozen.id))
    # Asked again, as a dispatcher does: it runs once.
    assert [result.outcome for result in bench.start(launch)] == ["Started"]
    bench.pid_of("late")
    assert is_alive(process)
    for key in (earlier, launch.key):
        bench.close(key)


DISPATCHER = """
import sys, time
from pathlib import Path
from tests.integration.local_launcher.bench import Bench, python
from tests.contract.subjects import member
bench = Bench(Path(sys.argv[1]))
bench.start(
    member(python("note('runs'); time.sleep(60)"), unit_id=1 << 20),
    member(python('''
note('ends')
while os.path.exists('ends'): time.sleep(0.01)
sys.exit(42)'''), unit_id=2 << 20),
)
Path(sys.argv[1], "started").touch()
time.sleep(60)
"""


def test_members_outlive_a_killed_dispatcher_and_their_ends_are_kept(short_folder: Path) -> None:
    """Both are started by another process, which is killed; one ends while no launcher is there."""
    dispatcher = subprocess.Popen([sys.executable, "-c", DISPATCHER, short_folder], cwd=ROOT)
    try:
        wait_until((short_folder / "started").exists)
    finally:
        dispatcher.kill()
        dispatcher.wait()
    runs, ends = MemberKey(1 << 20, 1, 0, 0), MemberKey(2 << 20, 1, 0, 0)
    members = short_folder / "members"
    wait_until((members / "ends").exists)
    (members / "ends").unlink()
    record = short_folder / "data/launcher/units" / str(ends.unit_id) / "1.0.0.record"
    wait_until(lambda: "ended_at" in record.read_text())
    bench = Bench(short_folder)
    try:
        ended = find(bench.launcher, ends)
        assert ended is not None
        assert (ended.state, ended.exit_code) == (MemberState.ENDED, 42)
        alive = find(bench.launcher, runs)
        assert alive is not None
        assert alive.state is MemberState.READY
        told = threading.Event()
        bench.launcher.on_change(told.set)
        send_signal(bench.pid_of("runs"), signal.SIGINT)
        assert told.wait(0.9)  # its supervisor found the new launcher's bell
        assert wait_for_end(bench.launcher, runs).exit_code == 128 + 2
    finally:
        bench.end()


class FrozenLaunch:
    """A launch whose supervisor freezes at a named point, in a thread of its own."""

    def __init__(self, bench: Bench, point: str, launch: MemberLaunch) -> None:
        os.environ[points.VARIABLE] = f"{point}:freeze"
        try:
            bench.reopen()
        finally:
            del os.environ[points.VARIABLE]
        self._bench = bench
        self._results: list[LaunchResult] = []
        self._thread = threading.Thread(target=lambda: self._results.extend(bench.start(launch)))
        self._thread.start()
        self.supervisor = self._find_supervisor()

    def thaw(self) -> None:
        send_signal(self.supervisor, signal.SIGCONT)

    def result(self) -> LaunchResult:
        self._thread.join(10)
        assert len(self._results) == 1, "the launch was not answered"
        return self._results[0]

    def _find_supervisor(self) -> ProcessId:
        """The spawner's only child, once it is stopped."""
        found: list[ProcessId] = []

        def is_frozen() -> bool:
            children = subprocess.run(
                ["ps", "-o", "pid=,stat=", "--ppid", str(self._bench.launcher.spawner_pid)],
                capture_output=True,
                text=True,
                check=False,
            ).stdout.split()
            if (
                len(children) == 2
                and children[1].startswith("T")
                and (seen := find_process(int(children[0])))
            ):
                found.append(seen.id)
            return bool(found)

        wait_until(is_frozen)
        return found[0]


@pytest.mark.parametrize("point", ["supervisor.member-forked", "supervisor.member-recorded"])
def test_a_frozen_supervisor_does_not_execute_what_was_closed_meanwhile(bench: Bench, point: str) -> None:
    """X3: record, then tombstone, then exec. The supervisor wakes up after the places were given away."""
    launch = member(python("note('executed')"))
    frozen = FrozenLaunch(bench, point, launch)
    tombstones.forbid(bench.layout, [launch.key.of])
    frozen.thaw()
    assert frozen.result().outcome == Outcome.REFUSED
    wait_until(lambda: is_gone(frozen.supervisor))
    assert not (bench.folder / "executed").exists()
    assert list(bench.launcher.observe()) == []


@pytest.mark.parametrize("point", ["supervisor.member-recorded", "supervisor.no-tombstone-seen"])
def test_close_ends_a_supervisor_that_froze_before_it_executed(bench: Bench, point: str) -> None:
    """It may have looked for the tombstone already: so it must be gone before Closed is answered."""
    launch = member(python("note('executed')"))
    frozen = FrozenLaunch(bench, point, launch)
    bench.close(launch.key)
    assert is_gone(frozen.supervisor)
    assert frozen.result().outcome == Outcome.REFUSED
    assert not (bench.folder / "executed").exists()
    assert [seen.state for seen in bench.launcher.observe() if seen.state in LIVE] == []


def test_close_does_not_wait_for_a_supervisor_without_a_record(bench: Bench) -> None:
    launch = member(python("note('executed')"))
    frozen = FrozenLaunch(bench, "supervisor.member-forked", launch)
    [result] = bench.launcher.close([launch.key.of])
    assert result.is_closed
    frozen.thaw()
    assert frozen.result().outcome == Outcome.REFUSED
    assert not (bench.folder / "executed").exists()


def test_a_frozen_start_that_is_repeated_starts_once(bench: Bench) -> None:
    """A second supervisor of the same member: the record belongs to who wrote it first."""
    launch = member(python("note(f'executed-{os.getpid()}'); time.sleep(60)"))
    frozen = FrozenLaunch(bench, "supervisor.member-forked", launch)
    other = bench.open()
    try:
        assert [result.outcome for result in other.launch([launch])] == [Outcome.STARTED]
        wait_until(lambda: len(list(bench.folder.glob("executed-*"))) == 1)
        frozen.thaw()
        assert frozen.result().outcome == Outcome.STARTED
        wait_until(lambda: is_gone(frozen.supervisor))
        assert len(list(bench.folder.glob("executed-*"))) == 1
    finally:
        other.stop()


def test_a_start_that_was_frozen_is_told_to_a_later_launcher(bench: Bench) -> None:
    """Long before that one would look for records by itself."""
    launch = member(python("time.sleep(60)"))
    frozen = FrozenLaunch(bench, "supervisor.member-forked", launch)
    later = bench.open()
    try:
        time.sleep(0.1)
        frozen.thaw()
        wait_until(lambda: find(later, launch.key) is not None, seconds=3)
        frozen.result()
    finally:
        later.stop()


def test_a_member_ends_with_a_supervisor_that_is_killed_before_it_executes(bench: Bench) -> None:
    launch = member(python("note('executed')"))
    frozen = FrozenLaunch(bench, "supervisor.no-tombstone-seen", launch)
    gated = bench.record(launch.key).record.member
    send_signal(frozen.supervisor, signal.SIGKILL)
    wait_until(lambda: is_gone(gated))
    frozen.result()
    assert wait_for_end(bench.launcher, launch.key).state is MemberState.LOST
    assert not (bench.folder / "executed").exists()


def test_an_end_that_was_not_written_yet_is_not_told(bench: Bench) -> None:
    launch = member(python("sys.exit(3)"))
    frozen = FrozenLaunch(bench, "supervisor.end-seen", launch)
    assert frozen.result().outcome == Outcome.STARTED
    seen = find(bench.launcher, launch.key)
    assert seen is not None
    assert seen.state is MemberState.READY
    frozen.thaw()
    assert wait_for_end(bench.launcher, launch.key).exit_code == 3


def test_a_folder_that_is_gone_says_nothing_about_members(bench: Bench) -> None:
    key = bench.run("time.sleep(60)")
    moved = bench.layout.root.with_name("moved")
    bench.layout.root.rename(moved)
    try:
        with pytest.raises(LauncherUnreachable):
            bench.start(member(("true",), unit_id=9 << 20))
        with pytest.raises(LauncherUnreachable):
            bench.launcher.close([key.of])
    finally:
        moved.rename(bench.layout.root)
    seen = find(bench.launcher, key)
    assert seen is not None
    assert seen.state is MemberState.READY
    assert bench.start(member(("true",), unit_id=9 << 20))[0].outcome == Outcome.STARTED


def test_a_supervisor_that_cannot_write_its_record_starts_nothing(bench: Bench) -> None:
    """The record is what makes a process findable: without it nothing is executed."""
    launch = member(python("note('executed')"))
    frozen = FrozenLaunch(bench, "supervisor.member-forked", launch)
    bench.layout.drop_unit_without_records(launch.key.unit_id)
    frozen.thaw()
    result = frozen.result()
    assert result.outcome == Outcome.REFUSED
    assert "could not start it" in (result.message or "")
    wait_until(lambda: is_gone(frozen.supervisor))
    assert not (bench.folder / "executed").exists()
