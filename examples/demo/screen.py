"""What the demo shows: a live table at a terminal; without one, a line for each change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

#: Each group has one colour throughout.
COLOURS: Mapping[str, str] = {"A": "bright_cyan", "B": "bright_magenta", "tasks": "bright_yellow"}
_STATUS_COLOURS = {
    "Running": "green",
    "Succeeded": "green",
    "Starting": "yellow",
    "Admitted": "yellow",
    "stuck": "bold red",
    "Failed": "bold red",
}
_MARGIN = "  "
_WIDEST = 100


@dataclass(frozen=True, kw_only=True)
class Row:
    """One group. `progress` is how far it has come, `why` why it does not move: one or the other."""

    name: str
    status: str
    members: int
    of: int
    gpus: int
    position: int | None = None
    progress: str = ""
    why: str = ""

    @property
    def running(self) -> str:
        return f"{self.members} of {self.of}"


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One moment. `holders` names for each GPU the group that holds it."""

    clock: str
    holders: Sequence[str | None]
    rows: Sequence[Row]


class Screen:
    """Prints to standard output."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self._live: Live | None = None
        self._told: dict[str, tuple[object, ...]] = {}

    @property
    def is_live(self) -> bool:
        return self.console.is_terminal and not self.console.is_dumb_terminal

    @contextmanager
    def part(self, title: str) -> Iterator[None]:
        """A part of the demo with its own table. The table stays when the part ends."""
        self.heading(title)
        self._told = {}
        if not self.is_live:
            yield
            return
        with Live(
            console=self.console, auto_refresh=False, transient=False, redirect_stderr=False
        ) as self._live:
            yield
        self._live = None

    def heading(self, title: str) -> None:
        self.say()
        width = min(self.console.width, _WIDEST)
        self.console.print(Rule(f"[bold]{escape(title)}[/]", align="left", style="dim"), width=width)

    def say(self, text: str = "", style: str = "") -> None:
        """A paragraph."""
        self.console.print(Text(text, style=style), width=min(self.console.width, _WIDEST))

    def show(self, frame: Frame) -> None:
        """The present moment."""
        if self._live is not None:
            self._live.update(_table(frame), refresh=True)
        else:
            self._print_changes(frame)

    def print(self, renderable: RenderableType) -> None:
        self.console.print(renderable)

    def _print_changes(self, frame: Frame) -> None:
        """A line for each group that changed. Steps of a training alone are no change: no flood."""
        for row in frame.rows:
            now = (row.status, row.members, row.gpus, row.position, row.why)
            if self._told.get(row.name) != now:
                self._told[row.name] = now
                self.console.print(_line(frame.clock, row), markup=False, soft_wrap=True)


def _line(clock: str, row: Row) -> str:
    parts = [f"{row.running} members running", f"{row.gpus} GPUs"]
    if row.position is not None:
        parts.append(f"position {row.position}")
    parts += [text for text in (row.why or row.progress,) if text]
    return f"{clock:>8}  {row.name:<5}  {row.status:<10} {', '.join(parts)}"


def _table(frame: Frame) -> RenderableType:
    return Group(Text(), _gpus(frame), Text(), _groups(frame), Text())


def _gpus(frame: Frame) -> RenderableType:
    """The node: one box for each GPU, with the name of who holds it."""
    line = Text(f"{_MARGIN}GPUs  ")
    for holder in frame.holders:
        text = "task" if holder == "tasks" else holder or "free"
        style = f"black on {COLOURS[holder]}" if holder else "dim"
        line.append(f"{text:^6}", style=style).append(" ")
    line.append(f" {frame.clock:>8}", style="dim")
    return line


def _groups(frame: Frame) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0), width=_WIDEST)
    table.add_column(f"{_MARGIN}group", no_wrap=True, width=9)
    table.add_column("status", no_wrap=True, width=10)
    table.add_column("running", no_wrap=True, width=7)
    table.add_column("GPUs", no_wrap=True, width=4)
    table.add_column("position", no_wrap=True, width=8)
    table.add_column("training, or why not", overflow="ellipsis", no_wrap=True)
    for row in frame.rows:
        table.add_row(
            Text(f"{_MARGIN}{row.name}", style=COLOURS[row.name]),
            Text(row.status, style=_STATUS_COLOURS.get(row.status, "")),
            row.running,
            str(row.gpus),
            "" if row.position is None else str(row.position),
            Text(row.why or row.progress, style="red" if row.why else ""),
        )
    return table
