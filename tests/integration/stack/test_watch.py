"""Whoever dies is started again, whatever becomes of the logs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from workers.embedded import log_file
from workers.stack.journal import Journal
from workers.stack.watch import Watch


class Sleeper:
    """A part whose process can be killed, and whose last words may be beyond telling."""

    name = "sleeper"

    def __init__(self, log: Path, code: str = "input()") -> None:
        self.log = log
        self.starts = 0
        self.faults = 0
        self._code = code
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        self.starts += 1
        with self.log.open("ab") as output:
            command = [sys.executable, "-c", self._code]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def end_leftover(self) -> bool:
        return False

    def last_words(self) -> str:
        if self.faults:
            self.faults -= 1
            raise ValueError("no words")
        return "ended"


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Sleeper]:
    part = Sleeper(tmp_path / "sleeper.log")
    yield part
    part.stop()


def watched(part: Sleeper, journal: Journal) -> Watch:
    part.start()
    watch = Watch([part], journal)
    watch.start()
    return watch


def wait_for(is_so: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_lost_log_folder_keeps_nobody_from_being_started(sleeper: Sleeper, tmp_path: Path) -> None:
    logs = tmp_path / "service"
    watch = watched(sleeper, Journal(logs / "stack.log"))
    try:
        shutil.rmtree(logs, ignore_errors=True)
        sleeper.stop()
        wait_for(lambda: sleeper.starts == 2 and sleeper.is_running)
    finally:
        watch.stop()
    assert "started again" in (logs / "stack.log").read_text()


def test_a_journal_that_cannot_be_written_keeps_nobody_from_being_started(
    sleeper: Sleeper, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    watch = watched(sleeper, Journal(tmp_path / "file" / "stack.log"))
    try:
        sleeper.stop()
        wait_for(lambda: sleeper.starts == 2 and sleeper.is_running)
    finally:
        watch.stop()
    assert "sleeper started again" in capsys.readouterr().err


def test_a_fault_of_the_watching_does_not_end_it(sleeper: Sleeper, tmp_path: Path) -> None:
    sleeper.faults = 1
    watch = watched(sleeper, Journal(tmp_path / "stack.log"))
    try:
        for starts in (2, 3):
            sleeper.stop()
            wait_for(lambda starts=starts: sleeper.starts == starts and sleeper.is_running)  # type: ignore[misc]
    finally:
        watch.stop()
    assert "no words" in (tmp_path / "stack.log").read_text()


def test_a_log_is_bounded_while_its_process_runs(tmp_path: Path) -> None:
    piece = log_file.LIMIT_BYTES // 4
    code = f"""
import sys, time
for _ in range(12):
    print("x" * {piece}, flush=True)
    time.sleep(0.15)
time.sleep(0.5)
print("done", flush=True)
input()
"""
    talker = Sleeper(tmp_path / "talker.log", code)
    watch = watched(talker, Journal(tmp_path / "stack.log"))
    older = talker.log.with_name("talker.log.1")
    try:
        wait_for(lambda: talker.log.exists() and log_file.read_tail(talker.log).endswith("done"))
    finally:
        watch.stop()
        talker.stop()
    assert talker.log.stat().st_size <= log_file.LIMIT_BYTES
    assert older.stat().st_size < 3 * log_file.LIMIT_BYTES  # it was cut more than once
    assert older.stat().st_mode & 0o777 == 0o600
    assert talker.starts == 1


def test_writers_go_on_behind_the_cut(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    writer = log_file.open_log(log)
    try:
        os.write(writer, b"x" * 50 + b"\n")
        log_file.bound_log(log, limit_bytes=50)
        os.write(writer, b"next\n")
        assert log.read_bytes() == b"next\n"
        assert log.with_name("a.log.1").read_bytes() == b"x" * 50 + b"\n"
        log_file.bound_log(log, limit_bytes=50)
    finally:
        os.close(writer)
    assert log.read_bytes() == b"next\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.log", "a.log.1"]
