"""Logs of members: bounded, the newest kept, readable from any offset."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import termios
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from service.operations.member_logs import list_segments, log_path, read_log, segment_path, tail_log
from tests.contract.subjects import wait_for_end, wait_until
from tests.integration.local_launcher.bench import Bench
from workers.launchers.base import MemberKey
from workers.launchers.local.records import Record

LIMIT = 64 * 1024


@pytest.fixture
def bench(short_folder: Path) -> Iterator[Bench]:
    made = Bench(short_folder, log_limit_bytes=LIMIT)
    try:
        yield made
    finally:
        made.end()


def size_on_disk(bench: Bench, key: MemberKey) -> int:
    total = 0
    for path in log_path(bench.data, key).parent.iterdir():
        with contextlib.suppress(FileNotFoundError):  # dropped between the two looks
            total += path.stat().st_size
    return total


def read_all(bench: Bench, key: MemberKey, *, limit: int) -> tuple[int, bytes]:
    """Read all that is kept, slice by slice; where it begins, and what it is."""
    offset, content, start = 0, b"", None
    while (part := read_log(bench.data, key, offset=offset, limit=limit)) and part.content:
        start = part.start if start is None else start
        assert len(part.content) <= limit
        content += part.content
        offset = part.next_offset
    assert start is not None
    return start, content


def has_copied_all(record: Record) -> bool:
    """Nothing waits in the member's pipe, and its supervisor sleeps until something does."""
    pipe = os.open(f"/proc/{record.member.pid}/fd/1", os.O_RDONLY | os.O_NONBLOCK)
    try:
        waiting = fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4)
    finally:
        os.close(pipe)
    is_asleep = psutil.Process(record.supervisor.pid).status() == psutil.STATUS_SLEEPING
    return waiting == b"\0" * 4 and is_asleep


def test_both_outputs_are_kept_in_order(bench: Bench) -> None:
    key = bench.run("""
        print("one", flush=True)
        print("two", file=sys.stderr, flush=True)
        os.write(1, "drei \\u20ac \\n".encode() + b"\\xff")
    """)
    wait_for_end(bench.launcher, key)
    assert tail_log(bench.data, key) == ["one", "two", "drei € ", "�"]
    assert tail_log(bench.data, key, lines=2) == ["drei € ", "�"]
    assert tail_log(bench.data, key, lines=0) == []


def test_what_is_written_last_before_a_kill_is_kept(bench: Bench) -> None:
    key = bench.run("os.write(1, b'last words'); os.kill(os.getpid(), 9)")
    wait_for_end(bench.launcher, key)
    assert tail_log(bench.data, key) == ["last words"]


def test_a_flood_keeps_the_newest_and_stays_within_its_bound(bench: Bench) -> None:
    key = bench.run("""
        for number in range(100_000):
            sys.stdout.write(f"line {number}\\n")
    """)
    wait_for_end(bench.launcher, key)
    assert size_on_disk(bench, key) <= LIMIT
    whole = b"".join(b"line %d\n" % number for number in range(100_000))
    start, kept = read_all(bench, key, limit=1000)
    assert len(kept) >= LIMIT // 2
    assert start + len(kept) == len(whole)
    assert kept == whole[start:]
    assert tail_log(bench.data, key, lines=2) == ["line 99998", "line 99999"]


def test_a_flood_at_full_speed_is_bounded_while_it_runs(bench: Bench) -> None:
    key = bench.run("""
        chunk = b"x" * 65536
        for _ in range(2000): os.write(1, chunk)
        note("flooded")
        while True: os.write(1, chunk)
    """)
    bench.wait_for_file("flooded")
    for _ in range(50):
        # A segment that was just set aside may stand beside the one that it replaces.
        assert size_on_disk(bench, key) <= LIMIT * 3 // 2
        part = read_log(bench.data, key, offset=0, limit=100)
        assert part is None or set(part.content) <= set(b"x")
    bench.launcher.terminate([key], grace_seconds=10)
    assert wait_for_end(bench.launcher, key).exit_code == 128 + 15


def test_ten_thousand_lines_without_their_ends(bench: Bench) -> None:
    key = bench.run("""
        for number in range(10_000): sys.stdout.write(f"step {number} ")
    """)
    wait_for_end(bench.launcher, key)
    assert size_on_disk(bench, key) <= LIMIT
    [tail] = tail_log(bench.data, key, limit=50)
    assert tail.endswith("step 9998 step 9999 ")
    assert len(tail) == 50


def test_reading_follows_a_log_that_is_set_aside_meanwhile(bench: Bench) -> None:
    """A reader that keeps up sees every byte once, although the log turns over many times."""
    key = bench.run("""
        for number in range(1000):
            os.write(1, b"%060d\\n" % number)
            time.sleep(0.0002)
        note("written")
        time.sleep(60)
    """)
    offset, content = 0, b""
    while len(content) < 1000 * 61:
        part = read_log(bench.data, key, offset=offset, limit=1 << 20)
        if part is not None:
            assert part.start == offset
            content += part.content
            offset = part.next_offset
    assert content == b"".join(b"%060d\n" % number for number in range(1000))
    assert len(list_segments(log_path(bench.data, key))) == 1


def test_offsets_that_are_nowhere(bench: Bench) -> None:
    assert read_log(bench.data, MemberKey(1, 1, 0, 0)) is None
    assert tail_log(bench.data, MemberKey(1, 1, 0, 0)) == []
    key = bench.run("print('1234')")
    wait_for_end(bench.launcher, key)
    part = read_log(bench.data, key, offset=10**12)
    assert part is not None
    assert (part.content, part.start, part.next_offset, part.size) == (b"", 5, 5, 5)
    part = read_log(bench.data, key, offset=2, limit=2)
    assert part is not None
    assert (part.start, part.content, part.next_offset) == (2, b"34", 4)


def test_a_member_without_output_has_an_empty_log(bench: Bench) -> None:
    key = bench.run("pass")
    wait_for_end(bench.launcher, key)
    part = read_log(bench.data, key)
    assert part is not None
    assert (part.content, part.size) == (b"", 0)


def test_logs_stay_when_a_generation_is_forgotten(bench: Bench) -> None:
    key = bench.run("print('kept')")
    wait_for_end(bench.launcher, key)
    bench.close(key)
    bench.launcher.forget([key.of])
    assert tail_log(bench.data, key) == ["kept"]


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of another process are Linux'")
def test_what_is_missing_in_the_middle_is_said_where_it_is_missing(bench: Bench) -> None:
    """A supervisor that may write no further, as on a full disk, until it may again."""
    key = bench.run("""
        print("before", flush=True)
        note("limited")
        while not Path("go").exists(): time.sleep(0.01)
        print("lost" * 100, flush=True)
        Path("lost").touch()
        while not Path("again").exists(): time.sleep(0.01)
        print("after", flush=True)
        sys.exit(3)
    """)
    bench.wait_for_file("limited")
    wait_until(lambda: tail_log(bench.data, key) == ["before"])
    supervisor = bench.record(key).record.supervisor.pid
    before = resource.prlimit(supervisor, resource.RLIMIT_FSIZE)
    size = log_path(bench.data, key).stat().st_size
    resource.prlimit(supervisor, resource.RLIMIT_FSIZE, (size, before[1]))
    (bench.folder / "go").touch()
    wait_until((bench.folder / "lost").exists)
    wait_until(lambda: has_copied_all(bench.record(key).record))
    resource.prlimit(supervisor, resource.RLIMIT_FSIZE, before)
    (bench.folder / "again").touch()
    seen = wait_for_end(bench.launcher, key)
    assert (seen.exit_code, seen.detail) == (3, "output lost: File too large")
    lines = tail_log(bench.data, key)
    assert lines == ["before", "", "[401 bytes of output lost: File too large]", "after"]


def test_a_log_that_was_set_aside_without_a_new_one_is_kept(bench: Bench) -> None:
    """As when the disk had no room for a new file just then: it is the newest part of the log."""
    half = LIMIT // 2
    key = bench.run(f"""
        os.write(1, b"a" * {half})
        while not Path("go").exists(): time.sleep(0.01)
        os.write(1, b"b" * 10)
    """)
    log = log_path(bench.data, key)
    wait_until(lambda: log.exists() and log.stat().st_size == half)
    log.rename(segment_path(log, 0))
    (bench.folder / "go").touch()
    wait_for_end(bench.launcher, key)
    assert read_all(bench, key, limit=LIMIT) == (0, b"a" * half + b"b" * 10)


def test_a_full_disk_costs_output_and_not_the_member(bench: Bench) -> None:
    """/dev/full answers every write as a full disk does."""
    key = MemberKey(1 << 20, 1, 0, 0)
    log = log_path(bench.data, key)
    log.parent.mkdir(parents=True)
    log.symlink_to("/dev/full")
    assert bench.run("print('lost'); sys.exit(3)") == key
    seen = wait_for_end(bench.launcher, key)
    assert (seen.exit_code, seen.detail) == (3, "output lost: No space left on device")
