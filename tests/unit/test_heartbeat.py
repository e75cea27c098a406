"""Signs of life: written by a process, judged by another."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from service.settings import Settings
from workers.embedded.identity import read_boot_id
from workers.health import check, judge_beats
from workers.heartbeat import Beat, Heartbeat, read_beats, runtime_folder


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=tmp_path, runtime=tmp_path / "runtime")


def beat(age: float, *, pid: int = 7, is_well: bool = True, doing: str = "leads") -> Beat:
    return Beat(boot_id="b", pid=pid, start="1", beat_at=1000.0 - age, doing=doing, is_well=is_well)


@pytest.mark.parametrize(
    ("beats", "is_well", "line"),
    [
        ([], False, "no worker runs here"),
        ([beat(10.0)], True, "worker (pid 7) leads"),
        ([beat(10.5)], False, "worker (pid 7) has given no sign of life for 10 s; its last: leads"),
        ([beat(0, is_well=False, doing="waits for Redis")], False, "worker (pid 7) waits for Redis"),
        # One that is not well is not hidden by one that is.
        (
            [beat(0), beat(60, pid=8)],
            False,
            "worker (pid 8) has given no sign of life for 60 s; its last: leads",
        ),
    ],
)
def test_the_last_sign_of_life_decides(beats: list[Beat], is_well: bool, line: str) -> None:
    verdict = judge_beats("worker", beats, now=1000.0, limit_seconds=10.0)
    assert (verdict.is_well, verdict.line) == (is_well, line)


def test_a_process_is_well_while_its_loop_comes_round(settings: Settings) -> None:
    heartbeat = Heartbeat(settings, "worker")
    heartbeat.start()
    assert not check(settings, "worker").is_well
    heartbeat.beat("leads")
    assert check(settings, "worker").is_well
    assert not check(settings, "ticker").is_well
    heartbeat.end()
    assert check(settings, "worker").line == "no worker runs here"


def test_it_is_written_again_when_it_grows_old_or_says_something_new(settings: Settings) -> None:
    heartbeat = Heartbeat(settings, "worker")
    heartbeat.start()
    heartbeat.beat("leads")
    [first] = read_beats(runtime_folder(settings), "worker")
    heartbeat.beat("leads")
    assert read_beats(runtime_folder(settings), "worker") == [first]
    heartbeat.beat("stands by")
    assert read_beats(runtime_folder(settings), "worker")[0].doing == "stands by"
    deadline = time.monotonic() + 10
    while read_beats(runtime_folder(settings), "worker")[0].beat_at < first.beat_at + 0.5:
        assert time.monotonic() < deadline
        heartbeat.beat("stands by")


def test_who_fails_again_and_again_is_not_well_in_between(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, health_seconds=0.5)
    heartbeat = Heartbeat(settings, "dispatcher")
    heartbeat.start()
    for _ in range(3):
        heartbeat.beat("waits for PostgreSQL", is_well=False)
        heartbeat.beat("stands by")
        verdict = check(settings, "dispatcher")
        assert not verdict.is_well
        assert verdict.line.endswith("stands by, and just now: waits for PostgreSQL")
    deadline = time.monotonic() + 10
    while not check(settings, "dispatcher").is_well:
        assert time.monotonic() < deadline
        heartbeat.beat("stands by")
    assert check(settings, "dispatcher").line.endswith(") stands by")


def test_what_a_dead_process_left_counts_for_nothing_and_is_cleared_away(settings: Settings) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    folder = runtime_folder(settings)
    folder.mkdir()
    # Its pid is free, or it is ours and the start another.
    for pid in (gone.pid, os.getpid()):
        left = {"boot_id": read_boot_id(), "pid": pid, "start": "1", "beat_at": time.monotonic()}
        (folder / f"worker.{pid}.json").write_bytes(_encoded(left))
    (folder / "worker.1.json").write_text("cut of")
    assert check(settings, "worker").line == "no worker runs here"
    heartbeat = Heartbeat(settings, "worker")
    heartbeat.start()
    heartbeat.beat("leads")
    assert [path.name for path in folder.iterdir()] == [f"worker.{os.getpid()}.json"]


def _encoded(fields: dict[str, object]) -> bytes:
    import msgspec

    return msgspec.json.encode({**fields, "doing": "leads", "is_well": True})


def test_a_folder_that_cannot_be_written_to_costs_the_sign_and_is_told_once(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    settings = Settings(data=tmp_path, runtime=in_the_way / "runtime")
    heartbeat = Heartbeat(settings, "worker")
    with capture_logs() as logs:
        heartbeat.start()
        heartbeat.beat("leads")
        heartbeat.end()
    assert [line["event"] for line in logs] == ["no_sign_of_life"]
    assert not check(settings, "worker").is_well


def test_without_a_runtime_folder_it_lies_in_the_data_folder(tmp_path: Path) -> None:
    assert runtime_folder(Settings(data=tmp_path)) == tmp_path / "run" / "health"
