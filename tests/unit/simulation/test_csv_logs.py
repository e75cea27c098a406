"""Logs in CSV: every row becomes a job or is counted, and what is wrong is named by line and column."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulation.logs.csv import read_csv
from simulation.logs.job import Ending
from simulation.logs.log import Log, LogWrong
from simulation.logs.spec import Spec, read_spec, spec_of

SPEC = spec_of(
    {
        "columns": {
            "name": "id",
            "submitted_at": "at",
            "runtime": "ran",
            "gpus": "n",
            "tenant": "who",
            "ending": "state",
            "time_limit": {"column": "limit", "unit": "h"},
        },
        "start": "2026-01-01T00:00:00Z",
        "endings": {"Killed": "cancelled"},
    }
)
HEADER = "id,at,ran,n,who,state,limit\n"


def _read(folder: Path, text: str | bytes, spec: Spec = SPEC) -> Log:
    path = folder / "log.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_csv(path, spec)


def test_a_row_becomes_a_job(tmp_path: Path) -> None:
    (job,) = _read(tmp_path, HEADER + "a,60,1:30,8,red,Killed,2\n").jobs
    assert job.submitted_at == datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert (job.line, job.name, job.runtime_seconds, job.gpus, job.tenant) == (2, "a", 90, 8, "red")
    assert (job.ending, job.time_limit_seconds) == (Ending.CANCELLED, 7200)


def test_rows_are_sorted_by_time_and_ties_keep_their_order(tmp_path: Path) -> None:
    log = _read(tmp_path, HEADER + "a,9,1,1,,,\nb,3,1,1,,,\nc,9,1,1,,,\nd,3,1,1,,,\n")
    assert [job.name for job in log.jobs] == ["b", "d", "a", "c"]
    assert log.warnings == (
        (
            "rows that were submitted before the row above them; jobs are taken in order of time: 2"
            " (first: line 3)"
        ),
    )


#: Without the time at which it was compressed: it names the case.
CUT_OFF = gzip.compress((HEADER + "a,0,1,1,,,\n" * 9).encode(), mtime=0)[:-9]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("b,1,-5,1,,,", "1 left out: its duration is negative (first: line 3, column ran)"),
        ("b,1,,1,,,", "1 left out: it has no duration (first: line 3, column ran)"),
        ("b,NA,5,1,,,", "1 left out: it has no time of submission (first: line 3, column at)"),
        ("b,1,5,0,,,", "1 left out: it asks for no GPU (first: line 3, column n)"),
        ("b,1,5,-2,,,", "1 left out: it asks for fewer than 0 GPUs (first: line 3, column n)"),
    ],
)
def test_what_cannot_be_replayed_is_counted(tmp_path: Path, row: str, said: str) -> None:
    log = _read(tmp_path, f"{HEADER}a,0,1,1,,,\n{row}\n")
    assert len(log.jobs) == 1
    assert list(map(str, log.left_out)) == [said]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEADER + "a,0,1,1,,,\nb,soon,1,1,,,\n", "line 3, column at: 'soon' is no time"),
        (HEADER + "a,0,1,1.5,,,\n", "line 2, column n: '1.5' is no whole number"),
        (HEADER + "a,0,1,inf,,,\n", "line 2, column n: 'inf' is no whole number"),
        (HEADER + "a,0,a while,1,,,\n", "line 2, column ran: 'a while' is no duration"),
        (HEADER + "a,0,1,1,,,\nb,0,1", "line 3: 3 columns where there should be 7: the row is broken, or"),
        ("id,at,ran\n", "line 1: there is no column n (gpus), but id, at, ran"),
        ("", "line 1: there is no column id (name), but none"),
        (HEADER, "has no job that can be replayed: no row in it"),
        (HEADER + 'a,0,1,1,"red,,\n', "unexpected end of data"),
        (HEADER.encode() + b"a,0,1,1,\xff,,\n", "no text in UTF-8"),
        (HEADER.encode() + b"a,0,1,1,\0,,\n", "line 2: holds a zero byte"),
        (
            gzip.compress((HEADER + "a,0,1,1,,,\n" * 9).encode(), mtime=0)[:-9],
            "the compressed file breaks off",
        ),
    ],
)
def test_what_is_wrong_is_named_by_line_and_column(tmp_path: Path, text: str | bytes, said: str) -> None:
    with pytest.raises(LogWrong) as caught:
        _read(tmp_path, text)
    assert said in str(caught.value)
    assert "log.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_gzip_and_a_mark_of_the_byte_order_make_no_difference(tmp_path: Path) -> None:
    text = HEADER + "a,0,1,1,,,\n"
    plain = _read(tmp_path, text).jobs
    assert _read(tmp_path, "\ufeff" + text).jobs == plain
    assert _read(tmp_path, gzip.compress(text.encode())).jobs == plain


def test_dates_without_a_zone_are_of_the_one_that_is_said(tmp_path: Path) -> None:
    columns = {"submitted_at": "at", "started_at": "began", "ended_at": "over", "gpus": "n"}
    text = "at,began,over,n\n2026-07-01 12:00:00,2026-07-01T13:00:00+02:00,2026-07-01 14:00,1\n"
    (there,) = _read(tmp_path, text, spec_of({"columns": columns, "time_zone": "Europe/Berlin"})).jobs
    assert there.submitted_at == datetime(2026, 7, 1, 10, tzinfo=UTC)
    assert (there.started_at, there.runtime_seconds) == (datetime(2026, 7, 1, 11, tzinfo=UTC), 3600)
    log = _read(tmp_path, text, spec_of({"columns": columns}))
    assert log.warnings[:1] == ("times name no zone and are taken as UTC (first: line 2)",)


def test_what_was_cancelled_while_it_waited_is_withdrawn(tmp_path: Path) -> None:
    columns = {"submitted_at": "at", "started_at": "b", "ended_at": "e", "gpus": "n", "ending": "s"}
    text = "at,b,e,n,s\n10,,70,4,cancelled\n20,30,,4,running\n"
    log = _read(tmp_path, text, spec_of({"columns": columns}))
    (job,) = log.jobs
    assert job.withdrawn_at == datetime(1970, 1, 1, 0, 1, 10, tzinfo=UTC)
    (reason,) = log.left_out
    assert str(reason) == ("1 left out: it had not ended when the log was written (first: line 3, column e)")


def test_a_spec_that_says_too_little_names_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    for text, said in (
        ("columns: {gpus: n, runtime: r}", "spec.yaml: columns names none for submitted_at"),
        ("columns: {gpus: n, submitted_at: r}", "columns names none for runtime, or both"),
        ("columns: {gpus: n\n", "spec.yaml, line 2"),
        ("colums: {}", "colums"),
        ("columns: {gpus: n, submitted_at: a, runtime: r}\ntime_zone: Mars", "Mars is no time zone"),
    ):
        path.write_text(text)
        with pytest.raises(LogWrong) as caught:
            _read(tmp_path, "n,a,r\n1,1,1\n", read_spec(path))
        assert said in str(caught.value)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["0", "5", "-1", "", "x", "1e9", "2026-01-01", "inf"]),
            st.sampled_from(["1", "-1", "", "1:00", "2h", "nan", "x"]),
            st.sampled_from(["1", "0", "8", "-1", "", "1e99"]),
            st.text(max_size=5),
        ),
        max_size=8,
    )
)
def test_no_row_is_dropped_in_silence(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, ...]]
) -> None:
    """Every row is a job or left out with a reason, or the file is refused with a line."""
    lines = [",".join((str(number), *row[:3], row[3], "", "")) for number, row in enumerate(rows)]
    refused, log = "", None
    try:
        log = _read(tmp_path_factory.mktemp("csv"), HEADER + "a,0,1,1,,,\n" + "\n".join(lines) + "\n")
    except LogWrong as error:
        refused = str(error)
    assert "line " in refused if log is None else len(log.jobs) + log.left_out.count == 1 + len(rows)
