"""What sacct prints, as a log."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulation.logs.job import Ending
from simulation.logs.log import Log, LogWrong
from simulation.logs.reading import read_log
from simulation.logs.sacct import read_sacct
from simulation.logs.slurm_amounts import asked_of

COLUMNS = "JobID|User|Account|Partition|Submit|Start|End|Elapsed|Timelimit|State|ReqTRES|AllocTRES|AllocNodes"
TRES = "billing=16,cpu=16,gres/gpu:a100=8,gres/gpu=8,mem=64G,node=2"


def _row(**said: str) -> str:
    values = {
        "JobID": "101",
        "User": "ann",
        "Account": "red",
        "Partition": "gpu",
        "Submit": "2026-01-05T10:00:00",
        "Start": "2026-01-05T10:05:00",
        "End": "2026-01-05T12:05:00",
        "Elapsed": "02:00:00",
        "Timelimit": "1-00:00:00",
        "State": "COMPLETED",
        "ReqTRES": TRES,
        "AllocTRES": TRES,
        "AllocNodes": "2",
    } | said
    return "|".join(values[name] for name in COLUMNS.split("|")) + "\n"


def _read(folder: Path, *rows: str, columns: str = COLUMNS) -> Log:
    path = folder / "jobs.txt"
    path.write_text(columns + "\n" + "".join(rows))
    return read_log(path)


def test_a_row_becomes_a_job(tmp_path: Path) -> None:
    log = _read(tmp_path, _row())
    (job,) = log.jobs
    assert job.submitted_at == datetime(2026, 1, 5, 10, tzinfo=UTC)
    assert job.started_at == datetime(2026, 1, 5, 10, 5, tzinfo=UTC)
    assert (job.name, job.line, job.runtime_seconds, job.time_limit_seconds) == ("101", 2, 7200, 86_400)
    assert (job.gpus, job.nodes, job.gpu_model) == (8, 2, "a100")
    assert (job.cpus_milli, job.memory_mib) == (16_000, 65_536)
    assert (job.tenant, job.user, job.queue, job.ending) == ("red", "ann", "gpu", Ending.SUCCEEDED)
    assert log.warnings == ("times are taken as UTC; sacct prints them in the zone of its machine",)


def test_times_are_of_the_zone_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(COLUMNS + "\n" + _row())
    log = read_sacct(path, time_zone="America/New_York")
    assert log.jobs[0].submitted_at == datetime(2026, 1, 5, 15, tzinfo=UTC)
    assert log.warnings == ()


@pytest.mark.parametrize(
    ("state", "ending"),
    [
        ("CANCELLED by 1000", Ending.CANCELLED),
        ("TIMEOUT", Ending.TIMED_OUT),
        ("NODE_FAIL", Ending.NODE_FAILED),
        ("OUT_OF_MEMORY", Ending.FAILED),
        ("FAILED", Ending.FAILED),
    ],
)
def test_states_are_endings(tmp_path: Path, state: str, ending: Ending) -> None:
    (job,) = _read(tmp_path, _row(State=state)).jobs
    assert job.ending is ending


def test_what_was_cancelled_while_it_waited_is_withdrawn(tmp_path: Path) -> None:
    row = _row(State="CANCELLED by 7", Start="None", Elapsed="00:00:00", AllocTRES="", AllocNodes="0")
    (job,) = _read(tmp_path, row).jobs
    assert job.withdrawn_at == datetime(2026, 1, 5, 12, 5, tzinfo=UTC)
    assert (job.gpus, job.started_at) == (8, None)


def test_steps_and_what_still_runs_or_waits_are_counted(tmp_path: Path) -> None:
    log = _read(
        tmp_path,
        _row(JobID="7_1"),
        _row(JobID="7_1.batch"),
        _row(JobID="7_1.0"),
        _row(JobID="7_[2-9]", State="PENDING", Start="Unknown", End="Unknown"),
        _row(JobID="8", State="RUNNING", End="Unknown"),
        _row(JobID="9", ReqTRES="cpu=1,mem=1G,node=1", AllocTRES="cpu=0,mem=1G,node=1"),
    )
    assert [job.name for job in log.jobs] == ["7_1"]
    assert list(map(str, log.left_out)) == [
        "2 left out: it is a step, a part of a job that has a row of its own (first: line 3, column JobID)",
        "2 left out: it had not ended when the log was written (first: line 5, column State)",
        "1 left out: it asks for no GPU (first: line 7, column AllocTRES)",
    ]


def test_requeued_jobs_and_parts_of_mixed_jobs_are_told(tmp_path: Path) -> None:
    log = _read(tmp_path, _row(State="REQUEUED"), _row(), _row(JobID="5+0"), _row(JobID="5+1"))
    assert len(log.jobs) == 4
    assert log.warnings[1:] == (
        "rows that have the JobID of a row above them; each is taken for a job of its own: 1 (first: line 3)",
        "rows that are parts of a heterogeneous job; each is taken for a job of its own: 2 (first: line 4)",
    )


def test_a_trailing_bar_and_fewer_columns_will_do(tmp_path: Path) -> None:
    columns = "JobID|Submit|State|ElapsedRaw|TimelimitRaw|ReqTRES|"
    log = _read(tmp_path, "3|2026-01-05T10:00:00|COMPLETED|60|90|gres/gpu=4|\n", columns=columns)
    (job,) = log.jobs
    assert (job.runtime_seconds, job.time_limit_seconds, job.gpus) == (60, 5400, 4)
    assert "there is no column Account: no job has a tenant" in log.warnings


def test_no_limit_is_none(tmp_path: Path) -> None:
    for limit in ("UNLIMITED", "Partition_Limit", ""):
        assert _read(tmp_path, _row(Timelimit=limit)).jobs[0].time_limit_seconds is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "JobID|State\n",
            "line 1: there is no column Submit, Elapsed or ElapsedRaw or End, AllocTRES or ReqTRES",
        ),
        ("hello\n", "has no job that can be replayed"),
        (f"{COLUMNS}\n{_row()[:40]}", "line 2: 6 columns where there should be 13: the row is broken, or"),
        (f"{COLUMNS}\n{_row(Submit='soon')}", "line 2, column Submit: 'soon' is no time"),
        (f"{COLUMNS}\n{_row(Elapsed='soon')}", "line 2, column Elapsed: 'soon' is no duration"),
        (
            f"{COLUMNS}\n{_row(AllocTRES='gres/gpu=x')}",
            "line 2, column AllocTRES: 'gres/gpu=x' has the amount",
        ),
        (f"{COLUMNS}\n{_row(AllocTRES='lots')}", "line 2, column AllocTRES: 'lots' is no list of resources"),
    ],
)
def test_what_is_wrong_is_named_by_line_and_column(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(text)
    with pytest.raises(LogWrong) as caught:
        read_log(path, log_format=None if "|" in text else "sacct")
    assert said in str(caught.value) or "no columns parted by |" in str(caught.value)


def test_a_bar_in_a_name_is_counted(tmp_path: Path) -> None:
    log = _read(tmp_path, _row(), _row(User="a|b"))
    assert list(map(str, log.left_out)) == [
        "1 left out: it has more columns than the header: some text in it has a | of its own (first: line 3)"
    ]


def test_models_and_amounts() -> None:
    assert asked_of("gres/gpu:a100=2,gres/gpu:v100=2,cpu=4").model is None
    assert asked_of("gres/gpu:a100=2,gres/gpu:v100=2").gpus == 4
    assert asked_of("gres/gpu:a100:1g=2").model == "a100:1g"
    assert asked_of("mem=1.5T").memory_mib == 1_572_864
    assert asked_of("cpu=2").gpus == 0


@settings(deadline=None, max_examples=80)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "JobID": st.sampled_from(["1", "1.0", "2_3", "2_[1-4]", "", "4+1"]),
                "Submit": st.sampled_from(["2026-01-05T10:00:00", "Unknown", "x"]),
                "Start": st.sampled_from(["2026-01-05T11:00:00", "Unknown", "None"]),
                "End": st.sampled_from(["2026-01-05T12:00:00", "Unknown", "2026-01-01T00:00:00"]),
                "Elapsed": st.sampled_from(["1-00:00:00", "00:00:00", "", "INVALID"]),
                "State": st.sampled_from(["COMPLETED", "CANCELLED by 1", "RUNNING", "", "ODD"]),
                "AllocTRES": st.sampled_from([TRES, "", "cpu=1", "gres/gpu=0"]),
                "User": st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=4),
            }
        ),
        max_size=6,
    )
)
def test_no_row_is_dropped_in_silence(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, str]]
) -> None:
    """Every row is a job or left out with a reason, or the file is refused with a line."""
    refused, log = "", None
    try:
        log = _read(tmp_path_factory.mktemp("sacct"), _row(), *(_row(**row) for row in rows))
    except LogWrong as error:
        refused = str(error)
    assert "line " in refused if log is None else len(log.jobs) + log.left_out.count == 1 + len(rows)
