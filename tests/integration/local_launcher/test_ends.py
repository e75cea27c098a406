"""How members end, and that nothing of them is left."""

from __future__ import annotations

import signal
import sys
import time

import pytest

from service.operations.member_logs import tail_log
from tests.contract.subjects import LIVE, find, member, wait_for_end, wait_until
from tests.integration.local_launcher.bench import Bench, is_gone, python
from workers.launchers.base import MemberState, Outcome


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGXCPU])
def test_a_signal_shows_as_128_and_its_number(bench: Bench, number: signal.Signals) -> None:
    key = bench.run(f"os.kill(os.getpid(), {int(number)})")
    seen = wait_for_end(bench.launcher, key)
    assert (seen.state, seen.exit_code) == (MemberState.ENDED, 128 + number)
    assert seen.detail == f"ended by {number.name}"
    assert not seen.was_told_to_stop


def test_a_member_ignores_and_blocks_no_signal(bench: Bench) -> None:
    launch = member(("grep", "-E", "Sig(Ign|Blk)", "/proc/self/status"))
    bench.start(launch)
    wait_for_end(bench.launcher, launch.key)
    masks = [int(line.split()[1], 16) for line in tail_log(bench.data, launch.key)]
    # The C library keeps 32 and 33 for itself: nobody can set them, so nobody can set them back.
    ours = sum(1 << (number - 1) for number in signal.valid_signals())
    assert [mask & ours for mask in masks] == [0, 0]


def test_exit_0_after_sigterm_was_told(bench: Bench) -> None:
    key = bench.run("""
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        note("ready")
        while True: time.sleep(1)
    """)
    bench.pid_of("ready")
    bench.launcher.terminate([key], grace_seconds=30)
    seen = wait_for_end(bench.launcher, key)
    assert (seen.exit_code, seen.was_told_to_stop) == (0, True)


def test_what_ignores_sigterm_is_killed_after_the_grace(bench: Bench) -> None:
    key = bench.run("""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        note("ready")
        while True: time.sleep(1)
    """)
    process = bench.pid_of("ready")
    started = time.monotonic()
    bench.launcher.terminate([key], grace_seconds=0.5)
    seen = wait_for_end(bench.launcher, key)
    assert 0.5 <= time.monotonic() - started < 5
    assert (seen.exit_code, seen.was_told_to_stop) == (128 + 9, True)
    assert is_gone(process)


@pytest.mark.parametrize("later_grace", [0.0, 60.0])
def test_a_repeated_terminate_changes_no_grace(bench: Bench, later_grace: float) -> None:
    key = bench.run("""
        terms = []
        signal.signal(signal.SIGTERM, lambda *_: terms.append(1))
        note("ready")
        while True:
            time.sleep(0.02)
            print(len(terms), flush=True)
    """)
    bench.pid_of("ready")
    started = time.monotonic()
    bench.launcher.terminate([key], grace_seconds=1.0)
    for _ in range(3):
        time.sleep(0.1)
        bench.launcher.terminate([key], grace_seconds=later_grace)
    seen = wait_for_end(bench.launcher, key)
    assert 1.0 <= time.monotonic() - started < 5
    assert seen.exit_code == 128 + 9
    assert tail_log(bench.data, key)[-1] == "1"  # one SIGTERM, however often it was called


def test_a_child_in_a_session_of_its_own_ends_with_its_member(bench: Bench) -> None:
    key = bench.run("""
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                note("daemon")
                time.sleep(60)
            os._exit(0)
        os.wait()
        while not os.path.exists("go"): time.sleep(0.01)
        sys.exit(3)
    """)
    daemon = bench.pid_of("daemon")
    (bench.folder / "go").touch()
    seen = wait_for_end(bench.launcher, key)
    assert seen.exit_code == 3
    assert is_gone(daemon)


def test_a_child_without_its_environment_ends_with_its_member(bench: Bench) -> None:
    key = bench.run("""
        subprocess.Popen(["env", "-i", sys.executable, "-S", "-c",
            "import os,time; open('child','w').write(f'{os.getpid()}\\\\n'); time.sleep(60)"],
            start_new_session=True)
        while not os.path.exists("go"): time.sleep(0.01)
    """)
    child = bench.pid_of("child")
    (bench.folder / "go").touch()
    assert wait_for_end(bench.launcher, key).exit_code == 0
    assert is_gone(child)


def test_the_end_is_told_only_when_nothing_is_left(bench: Bench) -> None:
    """A child may use up the grace of a member that ended at once: it may be writing a checkpoint."""
    key = bench.run("""
        if os.fork() == 0:
            def save(*_):
                time.sleep(0.5)
                Path("saved").touch()
                os._exit(0)
            signal.signal(signal.SIGTERM, save)
            os.setsid()
            note("child")
            while True: time.sleep(1)
        while True: time.sleep(1)
    """)
    child = bench.pid_of("child")
    bench.launcher.terminate([key], grace_seconds=30)
    seen = wait_for_end(bench.launcher, key)
    assert (bench.folder / "saved").exists()
    assert is_gone(child)
    assert (seen.exit_code, seen.was_told_to_stop) == (128 + 15, True)


def test_a_stopped_member_gets_its_grace(bench: Bench) -> None:
    key = bench.run("""
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
        note("ready")
        os.kill(os.getpid(), signal.SIGSTOP)
        while True: time.sleep(1)
    """)
    bench.pid_of("ready")
    bench.launcher.terminate([key], grace_seconds=30)
    assert wait_for_end(bench.launcher, key).exit_code == 7


@pytest.mark.parametrize(
    ("command", "workdir", "told"),
    [
        (("/nonexistent/train",), None, "cannot execute '/nonexistent/train': No such file"),
        (("no-such-program-anywhere",), None, "cannot execute 'no-such-program-anywhere': No such file"),
        (("./data.txt",), None, "cannot execute './data.txt': Permission denied"),
        (("./bad-interpreter",), None, "names an interpreter that is not there"),
        (("./no-format",), None, "Exec format error"),
        (("/",), None, "cannot execute '/'"),
        (("true",), "/nonexistent/workdir", "cannot enter the working directory '/nonexistent/workdir'"),
        (("true",), "/etc/passwd", "cannot enter the working directory '/etc/passwd'"),
        (("tr\0ue",), None, "embedded null"),
        (("true", "\ud800"), None, "surrogates not allowed"),
        ((), None, "the command is empty"),
    ],
)
def test_what_cannot_be_executed_says_why(
    bench: Bench, command: tuple[str, ...], workdir: str | None, told: str
) -> None:
    for name, mode, content in [
        ("data.txt", 0o644, b"x"),
        ("bad-interpreter", 0o755, b"#!/nonexistent/interpreter\n"),
        ("no-format", 0o755, b"\x7fELF and no more"),
    ]:
        (bench.folder / name).write_bytes(content)
        (bench.folder / name).chmod(mode)
    launch = member(command, workdir=workdir)
    [result] = bench.start(launch)
    assert result.outcome == Outcome.CANNOT_EXECUTE
    assert told in (result.message or "")
    seen = wait_for_end(bench.launcher, launch.key)
    assert (seen.cannot_execute, seen.detail) == (True, result.message)


def test_one_that_cannot_be_executed_does_not_keep_others(bench: Bench) -> None:
    launches = [
        member(("/nonexistent/train",), member=0, world_size=2),
        member(python("time.sleep(60)"), member=1, world_size=2),
    ]
    assert [result.outcome for result in bench.start(*launches)] == [Outcome.CANNOT_EXECUTE, Outcome.STARTED]
    seen = find(bench.launcher, launches[1].key)
    assert seen is not None
    assert seen.state in LIVE


def test_two_hundred_short_members(bench: Bench) -> None:
    """How many a second is printed and not asserted: it is the machine that decides."""
    launches = [member(("/bin/true",), unit_id=(number + 1) << 20) for number in range(200)]
    started = time.monotonic()
    results = bench.start(*launches)
    launched = time.monotonic() - started
    assert {result.outcome for result in results} == {Outcome.STARTED}
    wait_until(lambda: all(seen.state is MemberState.ENDED for seen in bench.launcher.observe()))
    ended = time.monotonic() - started
    assert {seen.exit_code for seen in bench.launcher.observe()} == {0}
    print(f"{200 / launched:.0f} launched, {200 / ended:.0f} ended a second", file=sys.stderr)
