"""What a benchmark found: figures with their limits, and the machine that they are of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from bench.machine import Machine

FOLDER = Path(__file__).parent / "results"


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One number. `at_most` and `at_least` are the limits that it should keep, if it has one."""

    name: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def is_kept(self) -> bool | None:
        """Whether the limit is kept; None without one."""
        if self.at_most is not None:
            return self.value <= self.at_most
        return None if self.at_least is None else self.value >= self.at_least


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """Values against what they are measured over, both above 0."""

    name: str
    points: list[tuple[float, float]]


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """A picture of some lines; `at_most`, in `unit`, is the limit of those that `limit_of` says."""

    title: str
    x_label: str
    y_label: str
    unit: str
    lines: list[Line]
    at_most: float | None = None
    limit_of: str = ""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one benchmark. `parts` says where the time goes, in the order in which it is spent;
    `limit` in words, what keeps it from being shorter. `charts` are drawn beside the file."""

    name: str
    title: str
    reading: str
    parameters: dict[str, int | float | str]
    figures: list[Figure]
    parts: list[Figure] = []
    limit: str = ""
    charts: list[Chart] = []


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """A result as it lies in its file. `load_average` is of the minute before the run: what else this
    machine had to do."""

    result: Result
    machine: Machine
    load_average: float
    took_seconds: float


def write_stored(stored: Stored, folder: Path = FOLDER) -> Path:
    """Write `folder/NAME.json`, in place of an earlier run."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stored.result.name}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(stored), indent=2) + b"\n")
    return path


def read_stored(folder: Path = FOLDER) -> list[Stored]:
    """Every result of `folder`, by name."""
    return [
        msgspec.json.decode(path.read_bytes(), type=Stored, strict=True)
        for path in sorted(folder.glob("*.json"))
    ]


def quantile(values: Iterable[float], share: float) -> float:
    """The smallest of `values` that at least `share` of them do not exceed. ValueError without values."""
    ordered: Sequence[float] = sorted(values)
    if not ordered:
        raise ValueError("nothing was measured")
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def milliseconds(name: str, seconds: float, *, at_most: float | None = None) -> Figure:
    """A figure of a duration that was measured in seconds; its limit is in milliseconds."""
    return Figure(name=name, value=round(seconds * 1000, 2), unit="ms", at_most=at_most)
