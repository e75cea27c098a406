"""A whole log: its jobs, and what of it cannot be replayed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from simulation.logs.job import LoggedJob


class LogWrong(ValueError):
    """Nothing can be said about a log: the message names file, line and column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why so many rows were left out. `line` and `column`: of the first of them; a column has the name that
    the file gives it, and is empty if all of the row is meant."""

    text: str
    count: int
    line: int
    column: str = ""

    def __str__(self) -> str:
        where = f"line {self.line}" + (f", column {self.column}" if self.column else "")
        return f"{self.count} left out: {self.text} (first: {where})"


class LeftOut:
    """Rows that no replay can take, counted by reason; who replays may note more of them."""

    def __init__(self) -> None:
        self._reasons: dict[str, Reason] = {}

    def note(self, text: str, *, line: int, column: str = "") -> None:
        known = self._reasons.get(text)
        if known is None:
            self._reasons[text] = Reason(text=text, count=1, line=line, column=column)
        else:
            first = min((known.line, known.column), (line, column))
            self._reasons[text] = Reason(text=text, count=known.count + 1, line=first[0], column=first[1])

    @property
    def count(self) -> int:
        return sum(reason.count for reason in self._reasons.values())

    def __iter__(self) -> Iterator[Reason]:
        """The most frequent first."""
        return iter(sorted(self._reasons.values(), key=lambda reason: (-reason.count, reason.line)))

    def __bool__(self) -> bool:
        return bool(self._reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """`jobs`: by `submitted_at`, ties in the order of the file. `warnings`: what the log cannot support, or
    was read in one way of several, a sentence each."""

    name: str
    jobs: Sequence[LoggedJob]
    left_out: LeftOut = field(default_factory=LeftOut)
    warnings: tuple[str, ...] = ()
