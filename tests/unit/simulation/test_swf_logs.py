"""Logs in the standard workload format."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from simulation.logs.job import Ending
from simulation.logs.log import LogWrong
from simulation.logs.reading import read_log
from simulation.logs.swf import read_swf

FIELDS = (
    *("job", "submit", "wait", "run", "allocated", "cpu_time", "used_memory", "requested", "requested_time"),
    *("requested_memory", "status", "user", "group", "executable", "queue", "partition", "preceding"),
    "think_time",
)
HEAD = "; Version: 2.2\n; UnixStartTime: 1000000000\n; Computer: nobody's\n"


def _row(**said: int) -> str:
    first = {"job": 1, "submit": 0, "wait": 5, "run": 60, "allocated": 4}
    return " ".join(str({**first, **said}.get(name, -1)) for name in FIELDS) + "\n"


def _written(folder: Path, text: str) -> Path:
    path = folder / "log.swf"
    path.write_text(text)
    return path


def test_every_field_is_read(tmp_path: Path) -> None:
    text = HEAD + _row(
        requested_time=600,
        requested_memory=2048,
        status=1,
        user=7,
        group=3,
        queue=2,
        partition=9,
        preceding=4,
    )
    log = read_log(_written(tmp_path, text))
    (job,) = log.jobs
    assert job.submitted_at == datetime.fromtimestamp(1_000_000_000, UTC)
    assert job.started_at == datetime.fromtimestamp(1_000_000_005, UTC)
    assert (job.name, job.line, job.runtime_seconds, job.gpus, job.cpus_milli) == ("1", 4, 60, 4, None)
    assert (job.memory_mib, job.time_limit_seconds, job.ending) == (8, 600, Ending.SUCCEEDED)
    assert (job.tenant, job.user, job.queue, job.after) == ("3", "7", "2", ("4",))
    assert log.warnings == ("a processor of the log is taken for one GPU",)


def test_processors_may_be_cpus_and_tenants_partitions(tmp_path: Path) -> None:
    path = _written(tmp_path, HEAD + _row(partition=9))
    (job,) = read_swf(path, processors="cpus", tenant_from="partition").jobs
    assert (job.gpus, job.cpus_milli, job.tenant) == (0, 4000, "9")


def test_what_was_cancelled_before_it_started_is_withdrawn(tmp_path: Path) -> None:
    text = HEAD + _row(status=5, wait=30, run=-1, allocated=-1, requested=8)
    (job,) = read_swf(_written(tmp_path, text)).jobs
    assert (job.gpus, job.runtime_seconds, job.started_at) == (8, 0, None)
    assert job.withdrawn_at == datetime.fromtimestamp(1_000_000_030, UTC)


def test_parts_of_jobs_and_jobs_without_a_duration_are_counted(tmp_path: Path) -> None:
    rows = (_row(status=1), _row(status=2), _row(status=3), _row(run=-1), _row(allocated=0))
    log = read_swf(_written(tmp_path, HEAD + "".join(rows)))
    assert len(log.jobs) == 1
    assert list(map(str, log.left_out)) == [
        "2 left out: it is a part of a job that has a row of its own (first: line 5, column status)",
        "1 left out: it has no duration (first: line 7, column run)",
        "1 left out: it asks for no GPU (first: line 8, column allocated)",
    ]


def test_a_log_without_a_start_and_with_think_times_says_so(tmp_path: Path) -> None:
    log = read_swf(_written(tmp_path, _row() + _row(job=2, preceding=1, think_time=9)))
    assert log.jobs[0].submitted_at == datetime.fromtimestamp(0, UTC)
    assert log.warnings[1:] == (
        "the header names no UnixStartTime, so dates count from 1970-01-01",
        "think times are not kept: a job may start as soon as the one before it has ended",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + _row() + "1 2 3", "line 5: 3 numbers where there should be 18: the row is broken, or"),
        (HEAD + _row().replace("60", "x"), "line 4, column run: 'x' is no number within bounds"),
        (HEAD + _row().replace("60", "nan"), "line 4, column run: 'nan' is no number within bounds"),
        ("; UnixStartTime: later\n" + _row(), "UnixStartTime in its header is 'later'"),
        (HEAD, "has no job that can be replayed: no row in it"),
    ],
)
def test_what_is_wrong_is_named_by_line_and_column(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(LogWrong) as caught:
        read_swf(_written(tmp_path, text))
    assert said in str(caught.value)
