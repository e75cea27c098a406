"""What the columns of a CSV file mean: a small YAML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
import yaml

from simulation.logs.job import Ending
from simulation.logs.log import LogWrong

FieldName: TypeAlias = Literal[
    "name",
    "submitted_at",
    "started_at",
    "ended_at",
    "withdrawn_at",
    "runtime",
    "gpus",
    "nodes",
    "cpus",
    "memory",
    "gpu_model",
    "tenant",
    "user",
    "queue",
    "priority",
    "time_limit",
    "ending",
    "after",
]
Unit: TypeAlias = Literal["ms", "s", "m", "h", "d", "B", "KiB", "MiB", "GiB", "TiB", "milli"]


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`unit`: of a bare number in it (times: s; memory: MiB; cpus: whole ones). `per_node`: it says an amount
    of each of the job's `nodes`."""

    column: str
    unit: Unit | None = None
    per_node: bool = False


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`columns`: by field, the column of the file. `start`: what second 0 of a column of seconds is (else
    1970-01-01, so that seconds since then need nothing said). `time_zone`: of dates that name none, else UTC.
    `endings`: what a word in the column of `ending` means, besides the words that are known. `header`: names
    of the columns of a file without a first row of them. `after_separator`: between the names of jobs that
    have to end first."""

    columns: dict[FieldName, str | Column]
    delimiter: str = ","
    header: list[str] | None = None
    start: str | None = None
    time_zone: str | None = None
    endings: dict[str, Ending] = msgspec.field(default_factory=dict)
    after_separator: str = ";"

    def column_of(self, field: FieldName) -> Column | None:
        said = self.columns.get(field)
        return Column(column=said) if isinstance(said, str) else said


_RUNTIMES = "runtime, or both started_at and ended_at"


def read_spec(path: Path) -> Spec:
    """Raises LogWrong that names file and line."""
    try:
        text = path.read_text(encoding="utf-8")
        said = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f", line {error.problem_mark.line + 1}"
        raise LogWrong(f"{path}{line}: {error.problem}") from None
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise LogWrong(f"{path} cannot be read: {error}") from None
    try:
        return spec_of(said)
    except ValueError as error:
        raise LogWrong(f"{path}: {error}") from None


def spec_of(said: Any) -> Spec:
    """Raises ValueError."""
    spec = msgspec.convert(said, Spec)
    if "submitted_at" not in spec.columns:
        raise ValueError("columns names none for submitted_at")
    if "runtime" not in spec.columns and not {"started_at", "ended_at"} <= spec.columns.keys():
        raise ValueError(f"columns names none for {_RUNTIMES}")
    if "gpus" not in spec.columns and "cpus" not in spec.columns:
        raise ValueError("columns names none for gpus")
    if len(spec.delimiter) != 1:
        raise ValueError("delimiter is one character")
    return spec
