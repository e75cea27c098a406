"""What `sacct --parsable2` (or `--parsable`) prints.

    sacct --allusers --allocations --parsable2 --starttime 2026-01-01 --endtime 2026-02-01 \\
      --format JobID,User,Account,Partition,Submit,Start,End,Elapsed,Timelimit,State,ReqTRES,AllocTRES
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from simulation.logs.gathering import Draft, Gathering
from simulation.logs.job import Ending
from simulation.logs.log import Log, LogWrong
from simulation.logs.open import text_lines
from simulation.logs.slurm_amounts import Asked, asked_of
from simulation.logs.values import count_of, instant_reader, is_nothing, seconds_of, zone_of

#: Without these nothing can be replayed; of each of the lists, without any of it.
REQUIRED = ("JobID", "Submit", "State")
ONE_OF = (("Elapsed", "ElapsedRaw", "End"), ("AllocTRES", "ReqTRES"))

_ENDINGS = {
    "COMPLETED": Ending.SUCCEEDED,
    "FAILED": Ending.FAILED,
    "OUT_OF_MEMORY": Ending.FAILED,
    "DEADLINE": Ending.CANCELLED,
    "CANCELLED": Ending.CANCELLED,
    "REVOKED": Ending.CANCELLED,
    "TIMEOUT": Ending.TIMED_OUT,
    "NODE_FAIL": Ending.NODE_FAILED,
    "BOOT_FAIL": Ending.NODE_FAILED,
    "PREEMPTED": Ending.NODE_FAILED,
    "REQUEUED": Ending.UNKNOWN,
}
_LIVE = frozenset(
    {"RUNNING", "PENDING", "SUSPENDED", "RESIZING", "COMPLETING", "CONFIGURING", "STOPPED", "REQUEUE_HOLD"}
)
_NO_LIMIT = frozenset({"unlimited", "partition_limit", "not_set"})
_COLUMNS = {"submitted": "Submit", "runtime": "Elapsed", "ended": "End", "gpus": "AllocTRES"}

T = TypeVar("T")


def read_sacct(path: Path, *, time_zone: str | None = None) -> Log:
    """`time_zone`: of the times, which sacct prints in that of the machine it runs on; None: UTC. Raises
    LogWrong with line and column."""
    try:
        read_time = instant_reader(zone=zone_of(time_zone or "UTC"))
    except ValueError as error:
        raise LogWrong(str(error)) from None
    rows = _rows(path)
    header = _header(path, rows)
    gathering = Gathering(path.name, columns=_COLUMNS)
    seen: set[str] = set()
    for line, parts in rows:
        row = _Row(path, line, dict(zip(header, parts, strict=False)))
        if (reason := _why_not(row, parts, header)) is not None:
            gathering.leave_out(reason[0], line=line, column=reason[1])
            continue
        draft = _draft(row, read_time)
        if draft.name in seen:
            gathering.warn("have the JobID of a row above them; each is taken for a job of its own", line)
        seen.add(draft.name)
        if "+" in draft.name:
            gathering.warn("are parts of a heterogeneous job; each is taken for a job of its own", line)
        gathering.add(draft)
    return gathering.log(warnings=tuple(_warnings(header, time_zone)))


class _Row:
    """A row whose values are read by the names of their columns."""

    def __init__(self, path: Path, line: int, said: Mapping[str, str]) -> None:
        self.line = line
        self._path = path
        self._said = said

    def text(self, column: str) -> str:
        """Empty where nothing is said."""
        text = self._said.get(column, "").strip()
        return "" if is_nothing(text) else text

    def read(self, column: str, reader: Callable[[str], T]) -> T | None:
        """Raises LogWrong if the value cannot be read."""
        text = self.text(column)
        try:
            return reader(text) if text else None
        except ValueError as error:
            raise LogWrong(
                f"{self._path}, line {self.line}, column {column}: {text[:60]!r} {error}"
            ) from None


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    for line, text in enumerate(text_lines(path), start=1):
        stripped = text.rstrip("\r\n")
        if stripped:
            yield line, stripped.split("|")


def _header(path: Path, rows: Iterator[tuple[int, list[str]]]) -> list[str]:
    _, header = next(rows, (1, [""]))
    names = [name.strip() for name in header]
    if len(names) < 2:
        raise LogWrong(f"{path}, line 1: no columns parted by |, as sacct --parsable2 prints them")
    missing = [name for name in REQUIRED if name not in names]
    missing += [" or ".join(any_of) for any_of in ONE_OF if not set(any_of) & set(names)]
    if missing:
        raise LogWrong(f"{path}, line 1: there is no column {', '.join(missing)}; add it to --format")
    return names


def _why_not(row: _Row, parts: Sequence[str], header: Sequence[str]) -> tuple[str, str] | None:
    """Why a row is no job that can be replayed, and the column that says so."""
    if len(parts) < len(header):
        raise LogWrong(
            f"{row._path}, line {row.line}: {len(parts)} columns where there should be {len(header)}: "
            "the row is broken, or the file breaks off there"
        )
    if len(parts) > len(header):
        return "it has more columns than the header: some text in it has a | of its own", ""
    if "." in row.text("JobID"):
        return "it is a step, a part of a job that has a row of its own", "JobID"
    if _state(row) in _LIVE:
        return "it had not ended when the log was written", "State"
    return None


def _state(row: _Row) -> str:
    """`CANCELLED by 1000` is CANCELLED."""
    return row.text("State").partition(" ")[0].rstrip("+").upper()


def _draft(row: _Row, read_time: Callable[[str], float]) -> Draft:
    state = _state(row)
    allocated = row.read("AllocTRES", asked_of)
    asked = allocated or row.read("ReqTRES", asked_of) or Asked()
    runtime = row.read("ElapsedRaw", seconds_of)
    if runtime is None:
        runtime = row.read("Elapsed", seconds_of)
    ending = _ENDINGS.get(state, Ending.UNKNOWN)
    ended = row.read("End", read_time)
    # Slurm gives a job that never started the time of its end as its start.
    has_started = not (ending is Ending.CANCELLED and not runtime and allocated is None)
    return Draft(
        line=row.line,
        name=row.text("JobID") or str(row.line),
        submitted=row.read("Submit", read_time),
        started=row.read("Start", read_time) if has_started else None,
        ended=ended,
        runtime=runtime,
        gpus=asked.gpus,
        nodes=row.read("AllocNodes", count_of) or row.read("ReqNodes", count_of) or asked.nodes,
        cpus_milli=None if asked.cpus is None else round(asked.cpus * 1000),
        memory_mib=asked.memory_mib,
        gpu_model=asked.model,
        tenant=row.text("Account"),
        user=row.text("User"),
        queue=row.text("Partition"),
        time_limit=_time_limit(row),
        ending=ending,
    )


def _time_limit(row: _Row) -> float | None:
    for column, unit in (("TimelimitRaw", "m"), ("Timelimit", "s")):
        if row.text(column).lower() not in _NO_LIMIT:
            limit = row.read(column, partial(seconds_of, unit=unit))
            if limit is not None:
                return limit
    return None


def _warnings(header: Sequence[str], time_zone: str | None) -> Iterator[str]:
    if time_zone is None:
        yield "times are taken as UTC; sacct prints them in the zone of its machine"
    if "Timelimit" not in header and "TimelimitRaw" not in header:
        yield "there is no column Timelimit: no job has a time limit"
    if "Account" not in header:
        yield "there is no column Account: no job has a tenant"
    if "Priority" in header:
        yield "the column Priority is what Slurm's own factors came to; it orders nothing here"
