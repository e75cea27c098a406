"""What the demo shows: a live table at a terminal; without one, a line for each change."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.rule import Rule
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
    """One group. `progress` is how far it has come, `why` why it does not move."""

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
        """A paragraph; an indented one stays so in all its lines."""
        indent = text[: len(text) - len(text.lstrip())]
        width = min(self.console.width, _WIDEST)
        for line in textwrap.wrap(text, width, subsequent_indent=indent) or [""]:
            self.console.print(Text(line, style=style), soft_wrap=True)

    def complain(self, text: str) -> None:
        """Lines as they are."""
        self.console.print(Text(text, style="bold red"), soft_wrap=True)

    def show(self, frame: Frame) -> None:
        """The present moment."""
        if self._live is not None:
            self._live.update(_picture(frame), refresh=True)
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
    parts = [f"{row.running} running", f"{row.gpus} GPU{'' if row.gpus == 1 else 's'}"]
    if row.position is not None:
        parts.append(f"position {row.position}")
    parts += [text for text in (row.why or row.progress,) if text]
    return f"{clock:>8}  {row.name:<5}  {row.status:<10} {', '.join(parts)}"


def _picture(frame: Frame) -> Text:
    """The node with a box for each GPU, then the groups."""
    lines = [Text(), _gpus(frame), Text(), Text(_HEAD, style="dim")]
    for row in frame.rows:
        lines += _group(row)
    return Text("\n").join([*lines, Text()])


def _gpus(frame: Frame) -> Text:
    """One box for each GPU, with the name of who holds it."""
    line = Text(f"{_MARGIN}GPUs  ")
    for holder in frame.holders:
        text = "task" if holder == "tasks" else holder or "free"
        line.append(f"{text:^6}", style=f"black on {COLOURS[holder]}" if holder else "dim").append(" ")
    return line.append(f" {frame.clock:>8}", style="dim")


_HEAD = f"{_MARGIN}{'group':<7}{'status':<12}{'running':<10}{'GPUs':<6}{'position':<10}training"


def _group(row: Row) -> list[Text]:
    """A line for the group, and one for what it waits for."""
    position = "" if row.position is None else str(row.position)
    line = Text(f"{_MARGIN}{row.name:<7}", style=COLOURS[row.name])
    line.append(f"{row.status:<12}", style=_STATUS_COLOURS.get(row.status, "default"))
    line.append(f"{row.running:<10}{row.gpus:<6}{position:<10}", style="default")
    line.append(row.progress, style="default")
    return [line, Text(f"{_MARGIN}{'':<7}{row.why}", style="red")] if row.why else [line]
