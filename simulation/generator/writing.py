"""A log as a CSV file, with the spec that reads it."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from typing import IO

from simulation.logs.job import LoggedJob
from simulation.logs.log import Log

#: By column of the file: the field of a spec that it is.
_COLUMNS = {
    "id": "name",
    "submitted_at": "submitted_at",
    "runtime_s": "runtime",
    "gpus": "gpus",
    "tenant": "tenant",
    "user": "user",
    "time_limit_s": "time_limit",
    "state": "ending",
}
#: Of every file that is written here.
SPEC = "columns:\n" + "".join(f"  {field}: {column}\n" for column, field in _COLUMNS.items())


def write_csv(log: Log, path: Path) -> None:
    """Compressed if the name ends in `.gz`. The same log is always the same file."""
    if path.suffix != ".gz":
        with path.open("w", encoding="utf-8", newline="") as file:
            _write(log, file)
        return
    with (
        path.open("wb") as raw,
        gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="") as text,
    ):
        _write(log, text)


def _write(log: Log, file: IO[str]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows(map(_row, log.jobs))


def _row(job: LoggedJob) -> list[str | float | int]:
    limit = job.time_limit_seconds
    return [
        job.name,
        job.submitted_at.isoformat(),
        job.runtime_seconds,
        job.gpus,
        job.tenant,
        job.user,
        "" if limit is None else limit,
        job.ending.value,
    ]
