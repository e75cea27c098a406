"""A log file of any format that is known here."""

from __future__ import annotations

from pathlib import Path

from simulation.logs.csv import read_csv
from simulation.logs.log import Log, LogWrong
from simulation.logs.spec import read_spec


def read_log(path: Path, *, log_format: str | None = None, spec: Path | None = None) -> Log:
    """`log_format` None: by what the file looks like. `spec`: what the columns of a CSV file mean.
    Raises LogWrong, one message with file, line and column."""
    if log_format not in (None, "csv"):
        raise LogWrong(f"{path}: {log_format} is no format of a log")
    if spec is None:
        raise LogWrong(f"{path}: a CSV file needs a spec that says what its columns mean")
    return read_csv(path, read_spec(spec))
