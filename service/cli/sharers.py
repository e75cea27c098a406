"""What is said alike of all that shares quota: of queues and of cohorts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from service.cli.amounts import list_limit
from service.cli.printer import Cell, Column, Printer

if TYPE_CHECKING:
    from service.client.cohorts import Cohort
    from service.client.queues import Queue


def show_settings(out: Printer, found: Queue | Cohort, pairs: Iterable[tuple[str, str]]) -> None:
    """One of them, with all that is set for it."""
    if out.is_json:
        out.json(found)
        return
    for label, said in pairs:
        out.pair(label, said)


def show_rows(out: Printer, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
    """A table for people. A column in which nothing is said takes no room."""
    told = [number for number, _ in enumerate(columns) if any(row[number] for row in rows)]
    out.table([columns[number] for number in told], [[row[number] for number in told] for row in rows])


def show_deleted(out: Printer, found: Queue | Cohort, said: str) -> None:
    if out.is_json:
        out.json(found)
    else:
        out.line(said)


def lending(found: Queue | Cohort, *, is_in_cohort: bool) -> list[tuple[str, str]]:
    """How much it takes from others, and gives them; nothing where there is nobody to share with."""
    return [
        ("borrows", list_limit(found.borrowing_limit) if is_in_cohort else "-"),
        ("lends", list_limit(found.lending_limit, "all of it") if is_in_cohort else "-"),
    ]
