"""CSV whose columns a spec names."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, tzinfo
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

from simulation.logs.gathering import Draft, Gathering
from simulation.logs.job import Ending
from simulation.logs.log import Log, LogWrong
from simulation.logs.open import text_lines
from simulation.logs.spec import Column, FieldName, Spec
from simulation.logs.values import (
    KNOWN_ENDINGS,
    count_of,
    instant_reader,
    is_nothing,
    mib_of,
    number_of,
    seconds_of,
    zone_of,
)

#: Of each field of a spec, that of a Draft.
_DRAFTED: dict[str, str] = {
    "submitted_at": "submitted",
    "started_at": "started",
    "ended_at": "ended",
    "withdrawn_at": "withdrawn",
    "cpus": "cpus_milli",
    "memory": "memory_mib",
}
#: Fields that are nothing of a job if they are empty.
_TEXTS = ("name", "tenant", "user", "queue")


class _Reader(NamedTuple):
    """Where a field stands in a row, how it is read, and what it is of a Draft."""

    position: int
    column: str
    drafted: str
    read: Callable[[str], Any]


def read_csv(path: Path, spec: Spec) -> Log:
    """Raises LogWrong for a column that is not there, a value that cannot be read, and a row that breaks
    off, each with line and column."""
    rows = _rows(path, spec)
    header_line, header = (0, spec.header) if spec.header is not None else next(rows, (1, []))
    header = [name.strip() for name in header]
    columns = _columns(path, header, spec=spec, line=header_line)
    try:
        reading = _Reading(spec, header, columns)
    except ValueError as error:
        raise LogWrong(f"{path}: {error}") from None
    names = {_DRAFTED.get(field, field): column.column for field, column in columns.items()}
    gathering = Gathering(path.name, columns=names)
    for line, row in rows:
        if len(row) != len(header):
            if not row:
                continue
            raise LogWrong(
                f"{path}, line {line}: {len(row)} columns where there should be {len(header)}: "
                "the row is broken, or the file breaks off there"
            )
        gathering.add(reading.draft(path, line, row, gathering))
    return gathering.log(warnings=reading.warnings())


def _rows(path: Path, spec: Spec) -> Iterator[tuple[int, list[str]]]:
    """Each with the line on which it begins."""
    reader = csv.reader(text_lines(path), delimiter=spec.delimiter, strict=True)
    line = 1
    try:
        for row in reader:
            yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise LogWrong(f"{path}, line {line}: {error}") from None


def _columns(path: Path, header: Sequence[str], *, spec: Spec, line: int) -> dict[FieldName, Column]:
    found: dict[FieldName, Column] = {}
    for field in get_args(FieldName):
        if (column := spec.column_of(field)) is None:
            continue
        if column.column not in header:
            there = ", ".join(header) or "none"
            raise LogWrong(f"{path}, line {line}: there is no column {column.column} ({field}), but {there}")
        if header.count(column.column) > 1:
            raise LogWrong(f"{path}, line {line}: the column {column.column} is there twice")
        found[field] = column
    return found


class _Reading:
    """How each row becomes a Draft."""

    def __init__(self, spec: Spec, header: Sequence[str], columns: dict[FieldName, Column]) -> None:
        self._endings = KNOWN_ENDINGS | {word.lower(): ending for word, ending in spec.endings.items()}
        self._strange: dict[str, int] = {}
        self._separator = spec.after_separator
        self._zone = UTC if spec.time_zone is None else zone_of(spec.time_zone)
        self._start = 0.0 if spec.start is None else _start_of(spec.start, self._zone)
        self._is_zone_said = spec.time_zone is not None
        self._is_undated = False
        self._undated: int | None = None
        self._readers = [
            _Reader(
                position=header.index(column.column),
                column=column.column,
                drafted=_DRAFTED.get(field, field),
                read=self._reader(field, column),
            )
            for field, column in columns.items()
        ]
        self._per_node = [_DRAFTED.get(field, field) for field, column in columns.items() if column.per_node]

    def draft(self, path: Path, line: int, row: list[str], gathering: Gathering) -> Draft:
        draft = Draft(line=line, name="")
        for position, column, drafted, read in self._readers:
            text = row[position].strip()
            if is_nothing(text) and drafted not in _TEXTS:
                continue
            try:
                setattr(draft, drafted, read(text))
            except ValueError as error:
                raise LogWrong(f"{path}, line {line}, column {column}: {text[:60]!r} {error}") from None
        if self._per_node:
            self._sum_nodes(draft)
        draft.name = draft.name or str(line)
        if self._is_undated and self._undated is None:
            self._undated = line
        if draft.ending is Ending.UNKNOWN and self._strange:
            for word in self._strange:
                gathering.warn(f"ended as {word!r}, which the spec does not explain", line)
            self._strange.clear()
        return draft

    def warnings(self) -> tuple[str, ...]:
        if self._undated is None or self._is_zone_said:
            return ()
        return (f"times name no zone and are taken as UTC (first: line {self._undated})",)

    def _sum_nodes(self, draft: Draft) -> None:
        for field in self._per_node:
            amount = getattr(draft, field)
            if amount is not None:
                setattr(draft, field, amount * (draft.nodes or 1))

    def _reader(self, field: FieldName, column: Column) -> Callable[[str], Any]:
        if field in ("submitted_at", "started_at", "ended_at", "withdrawn_at"):
            return instant_reader(
                start_seconds=self._start,
                zone=self._zone,
                unit=column.unit or "s",
                on_no_zone=self._note_undated,
            )
        if field in ("runtime", "time_limit"):
            return partial(seconds_of, unit=column.unit or "s")
        if field == "memory":
            return partial(mib_of, unit=column.unit or "MiB")
        if field == "cpus":
            factor = 1 if column.unit == "milli" else 1000
            return lambda text: round(number_of(text) * factor)
        readers: dict[FieldName, Callable[[str], Any]] = {
            "gpus": count_of,
            "nodes": count_of,
            "priority": count_of,
            "ending": self._ending,
            "after": self._after,
        }
        return readers.get(field, str)

    def _note_undated(self) -> None:
        self._is_undated = True

    def _ending(self, word: str) -> Ending:
        ending = self._endings.get(word.lower())
        if ending is None:
            self._strange[word[:40]] = 1
            return Ending.UNKNOWN
        return ending

    def _after(self, text: str) -> tuple[str, ...]:
        return tuple(name for part in text.split(self._separator) if (name := part.strip()))


def _start_of(text: str, zone: tzinfo) -> float:
    try:
        return instant_reader(start_seconds=0.0, zone=zone)(text)
    except ValueError as error:
        raise ValueError(f"start: {text!r} {error}") from None
