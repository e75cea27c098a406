"""What `muster simulate` shows: how far it is, and the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from service.cli.printer import Cell, Column, Printer

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from simulation.replay.progress import Progress
    from simulation.report.comparison import Comparison
    from simulation.report.rows import Section
    from simulation.trial.contest import Watcher

#: Labels and columns of policies, with the space between them.
_LABEL, _POLICY = 18, 13
#: The page has all of them.
_MOST_TENANTS = 6


def print_table(out: Printer, comparison: Comparison) -> None:
    """One table; of more policies than a terminal has room for several, one below the other. In a pipe a line
    for each figure: its section, its name, and the plain number of each policy (empty: there is none)."""
    from simulation.report.rows import sections_of

    sections = sections_of(comparison, most_tenants=_MOST_TENANTS)
    names = [each.policy for each in comparison.measures]
    if not out.is_terminal:
        out.table((), [("policy", "", *names), *_plain(sections)])
        return
    fit = max(1, (out.width - _LABEL) // _POLICY)
    for first in range(0, len(names), fit):
        chosen = range(first, min(first + fit, len(names)))
        columns = [
            Column("", is_cut=True),
            *(Column(names[number], align="right", is_cut=True) for number in chosen),
        ]
        out.table(columns, list(_lines(sections, chosen)))


def _plain(sections: Sequence[Section]) -> Iterator[list[Cell]]:
    for section in sections:
        for row in section.rows:
            values = ("" if value is None else repr(value) for value in row.values)
            yield [section.title, row.label, *values]


def _lines(sections: Sequence[Section], chosen: Sequence[int]) -> Iterator[list[Cell]]:
    for number, section in enumerate(sections):
        if number:
            yield [""] * (1 + len(chosen))
        yield [(section.title, "bold"), *("" for _ in chosen)]
        for row in section.rows:
            texts: list[Cell] = [
                (row.texts[each], "bold green") if each in row.best else row.texts[each] for each in chosen
            ]
            yield [f"  {row.label}", *texts]


@contextmanager
def watched(
    policies: Sequence[str], *, is_shown: bool, has_color: bool, are_together: bool
) -> Iterator[Watcher]:
    """A bar for each policy, on standard error. `are_together`: they are replayed at the same time, and say
    nothing before their end."""
    from simulation.trial.contest import Watcher

    if not is_shown:
        yield Watcher(begin=lambda _: None, progress=lambda *_: None, done=lambda _: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True, no_color=not has_color)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.percentage:>3.0f} %  {task.fields[waiting]:>7,} waiting"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        tasks = {
            policy: bars.add_task(policy.rpartition("/")[2], total=None, waiting=0, start=are_together)
            for policy in dict.fromkeys(policies)
        }
        yield _watcher(bars, tasks)


def _watcher(bars: Bars, tasks: dict[str, TaskID]) -> Watcher:
    from simulation.trial.contest import Watcher

    def begin(jobs: int) -> None:
        for task in tasks.values():
            bars.update(task, total=jobs)

    def progress(policy: str, reached: Progress) -> None:
        bars.start_task(tasks[policy])
        bars.update(tasks[policy], completed=reached.ended, waiting=reached.waiting)

    def done(policy: str) -> None:
        total = bars.tasks[tasks[policy]].total or 1
        bars.update(tasks[policy], total=total, completed=total, waiting=0)

    return Watcher(begin=begin, progress=progress, done=done)
