"""What is kept, for how long, and what it costs to look at it."""

from __future__ import annotations

import os
import time
from datetime import timedelta

from service.clock import SystemClock
from service.operations.member_logs import log_path
from tests.contract.subjects import find, member, wait_for_end, wait_until
from tests.integration.local_launcher.bench import Bench
from workers.embedded.folders import ServerUser, choose_socket_folder
from workers.launchers.base import GenerationKey, MemberKey
from workers.launchers.local.known import KnownMembers
from workers.launchers.local.sweep import KEPT, sweep


def test_what_is_older_than_seven_days_is_dropped(bench: Bench) -> None:
    old = bench.run("print('old')", unit_id=1 << 20)
    live = bench.run("time.sleep(60)", unit_id=2 << 20)
    wait_for_end(bench.launcher, old)
    bench.launcher.close([GenerationKey(3 << 20, 1, 0)])
    known = KnownMembers(bench.layout)
    known.refresh_all()

    assert not sweep(bench.data, known, now=SystemClock().now() + KEPT - timedelta(minutes=1))
    assert bench.layout.record(old).exists()
    assert bench.layout.tombstone(3 << 20).exists()
    assert log_path(bench.data, old).exists()

    assert sweep(bench.data, known, now=SystemClock().now() + KEPT + timedelta(minutes=1))
    assert not bench.layout.unit(old.unit_id).exists()
    assert not bench.layout.tombstone(3 << 20).exists()
    assert not log_path(bench.data, old).exists()
    assert bench.layout.record(live).exists()
    assert log_path(bench.data, live).exists()


def test_a_start_sweeps_without_waiting_for_it(bench: Bench) -> None:
    """It does not depend on what ran in the last seven days."""
    for number in range(1, 5_001):
        bench.layout.tombstone(number << 20).write_text("\n1 0\n")
        (bench.data / "logs" / str(number << 20) / "1" / "0").mkdir(parents=True)
    old = bench.layout.tombstone(7 << 20), bench.data / "logs" / str(7 << 20)
    long_ago = (SystemClock().now() - KEPT - timedelta(minutes=1)).timestamp()
    for path in (old[1] / "1" / "0", old[1] / "1", *old):
        os.utime(path, (long_ago, long_ago))

    bench.launcher.stop()
    began = time.monotonic()
    bench.launcher = bench.open()
    assert time.monotonic() - began < 0.25

    wait_until(lambda: not any(path.exists() for path in old))
    assert bench.layout.tombstone(8 << 20).exists()
    assert (bench.data / "logs" / str(8 << 20)).exists()


def test_the_logs_of_the_stack_stay(bench: Bench) -> None:
    service = bench.data / "logs" / "service"
    service.mkdir(parents=True)
    (service / "api.log").write_text("quiet for long\n")
    known = KnownMembers(bench.layout)
    sweep(bench.data, known, now=SystemClock().now() + KEPT + timedelta(days=1))
    assert (service / "api.log").read_text() == "quiet for long\n"


def test_a_forgotten_member_leaves_tombstone_and_log(bench: Bench) -> None:
    key = bench.run("print('kept')")
    wait_for_end(bench.launcher, key)
    bench.launcher.forget([key.of])
    assert not bench.layout.unit(key.unit_id).exists()
    assert bench.layout.tombstone(key.unit_id).exists()
    assert log_path(bench.data, key).exists()


def test_forgetting_a_live_generation_changes_nothing(bench: Bench) -> None:
    key = bench.run("""
        while not os.path.exists("go"): time.sleep(0.01)
    """)
    bench.launcher.forget([key.of])
    assert bench.start(member(("true",)))[0].outcome == "Started"  # known, so nothing new was started
    (bench.folder / "go").touch()
    seen = wait_for_end(bench.launcher, key)
    assert (seen.exit_code, seen.was_told_to_stop) == (0, False)


def test_files_that_nobody_can_read_keep_nobody_from_working(bench: Bench) -> None:
    bench.launcher.stop()
    (bench.layout.units / "lost+found").mkdir()
    bench.layout.make_unit(7)
    broken = MemberKey(7, 1, 0, 0)
    bench.layout.record(broken).write_text("no record\n")
    bench.layout.record(broken).with_name("notes.record").touch()
    bench.layout.tombstone(7).write_text("\nneither\n1")
    bench.launcher = bench.open()
    assert list(bench.launcher.observe()) == []
    assert bench.launcher.close([broken.of])[0].is_closed
    assert wait_for_end(bench.launcher, bench.run("sys.exit(2)")).exit_code == 2


def test_a_record_that_a_crash_cut_off_is_still_read(bench: Bench) -> None:
    key = bench.run("sys.exit(4)")
    wait_for_end(bench.launcher, key)
    bench.launcher.stop()
    path = bench.layout.record(key)
    whole = path.read_text()
    path.write_text(whole.rstrip("\n")[:-10])
    bench.launcher = bench.open()
    seen = find(bench.launcher, key)
    assert seen is not None
    assert seen.state == "Lost"


def test_looking_at_a_thousand_known_members_is_cheap(bench: Bench) -> None:
    """Nothing is read again that did not change."""
    key = bench.run("sys.exit(0)")
    wait_for_end(bench.launcher, key)
    text = bench.layout.record(key).read_text()
    for number in range(1000):
        other = MemberKey((number // 100 + 10) << 20, 1, 0, number % 100)
        bench.layout.make_unit(other.unit_id)
        bench.layout.record(other).write_text(text.replace(str(key), str(other)))
    bench.reopen()
    started = time.process_time()
    for _ in range(100):
        assert len(bench.launcher.observe()) == 1001
    assert time.process_time() - started < 0.5


def test_a_long_path_still_has_a_bell(bench: Bench) -> None:
    """Sockets take a hundred characters; folders may be deeper."""
    deep = bench.folder / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    other = Bench(deep)
    try:
        key = other.run("sys.exit(0)")
        assert wait_for_end(other.launcher, key, seconds=0.9).exit_code == 0
        assert not list(other.layout.root.glob("bells/*"))
    finally:
        other.end()
        user = ServerUser.of_caller()
        choose_socket_folder(other.layout.root / "bells", "x" * 20, user=user).rmdir()


def test_many_members_in_one_call(bench: Bench) -> None:
    """Orders and reports larger than a pipe and a socket take at once."""
    launches = [
        member(("true",), member=number, world_size=64, env={"FILLER": "x" * 10_000}) for number in range(64)
    ]
    assert {result.outcome for result in bench.start(*launches)} == {"Started"}
    assert bench.layout.record(launches[0].key).stat().st_size < 2000
