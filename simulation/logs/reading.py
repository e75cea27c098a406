"""A log file of any format that is known here."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from simulation.logs.csv import read_csv
from simulation.logs.history import is_history, read_history
from simulation.logs.log import Log, LogWrong
from simulation.logs.open import text_lines
from simulation.logs.sacct import read_sacct
from simulation.logs.spec import read_spec
from simulation.logs.swf import Processors, TenantFrom, read_swf

Format: TypeAlias = Literal["csv", "swf", "sacct", "history"]
FORMATS: tuple[Format, ...] = get_args(Format)


def read_log(
    path: Path,
    *,
    log_format: Format | None = None,
    spec: Path | None = None,
    time_zone: str | None = None,
    processors: Processors = "gpus",
    tenant_from: TenantFrom = "group",
) -> Log:
    """`log_format` None: by what the file looks like. `spec`: what the columns of a CSV file mean.
    `time_zone`: of the times of sacct. `processors` and `tenant_from`: what numbers of an SWF file stand for.
    Raises LogWrong, one message with file, line and column."""
    match log_format or ("csv" if spec is not None else _looks_like(path)):
        case "csv":
            if spec is None:
                raise LogWrong(f"{path}: a CSV file needs a spec that says what its columns mean")
            return read_csv(path, read_spec(spec))
        case "swf":
            return read_swf(path, processors=processors, tenant_from=tenant_from)
        case "sacct":
            return read_sacct(path, time_zone=time_zone)
        case "history":
            return read_history(path)
        case other:
            raise LogWrong(f"{path}: {other} is no format of a log, but {', '.join(FORMATS)}")


def _looks_like(path: Path) -> Format:
    """By its first line that says anything."""
    lines = [line.strip() for line in islice(text_lines(path), 200)]
    first = next((line for line in lines if line and not line.startswith(";")), "")
    if is_history(first):
        return "history"
    if "|" in first:
        return "sacct"
    if len(first.split()) == 18 and "," not in first:
        return "swf"
    return "csv"
