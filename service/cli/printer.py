"""Output: tables for people at a terminal, tab-separated lines for pipes, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import msgspec

from service.cli.pipes import flush, write_line

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

#: One cell: a text, or a text and the rich style that it has at a terminal.
Cell = str | tuple[str, str]

#: The width of labels; a longer one takes more, and still leaves room for what is said.
_LABEL, _LONGEST_LABEL = 12, 24


@dataclass(frozen=True)
class Column:
    """`is_whole`: keeps its width, however narrow the terminal is; others give way, over several lines
    or, with `is_cut`, in one that ends in an ellipsis."""

    title: str
    align: Literal["left", "right"] = "left"
    is_whole: bool = True
    is_cut: bool = False


class Printer:
    """Prints to standard output."""

    def __init__(self, *, is_json: bool = False, has_color: bool = True) -> None:
        self.is_json = is_json
        self._has_color = has_color

    @cached_property
    def is_terminal(self) -> bool:
        return sys.stdout.isatty()

    @cached_property
    def console(self) -> Console:
        from rich.console import Console

        return Console(no_color=not self._has_color, highlight=False, soft_wrap=False)

    @property
    def width(self) -> int:
        return self.console.width

    def json(self, value: object) -> None:
        """One JSON document."""
        text = msgspec.json.encode(value, order="deterministic")
        write_line(
            sys.stdout,
            json.dumps(json.loads(text), indent=2, ensure_ascii=False) if self.is_terminal else text.decode(),
        )

    def line(self, text: str, style: str = "") -> None:
        if self.is_terminal:
            self.console.print(text, style=style, markup=False, overflow="fold")
        else:
            # Who reads a pipe of a command that goes on wants to see it now.
            write_line(sys.stdout, text, is_flushed=True)

    def pair(self, label: str, cell: Cell) -> None:
        """One fact: its label and what it says, line under line however long that is."""
        if not self.is_terminal:
            write_line(sys.stdout, f"{label}\t{plain(_text(cell))}")
            return
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
        grid.add_column(style="dim", width=min(max(len(label), _LABEL), _LONGEST_LABEL), overflow="fold")
        grid.add_column(overflow="fold")
        grid.add_row(label, Text(plain(_text(cell)), style=_style(cell)))
        self.show(grid)

    def heading(self, text: str) -> None:
        """What comes next; only for people."""
        if self.is_terminal:
            self.line("")
            self.line(text, "bold")

    def note(self, text: str) -> None:
        """Something for people, on standard error, so that it never mixes with what a program reads."""
        if text and not self.is_json:
            write_line(sys.stderr, text)

    def show(self, renderable: RenderableType) -> None:
        """Anything of rich; only at a terminal."""
        self.console.print(renderable)

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
        """A table; without a terminal one line for each row, without a header, cells apart by tabs."""
        if self.is_terminal:
            self.show(make_table(columns, rows))
            return
        for row in rows:
            write_line(sys.stdout, "\t".join(plain(_text(cell)) for cell in row))
        flush(sys.stdout)


def make_table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> RenderableType:
    """A table of rich without lines around it."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(
            column.title.upper(),
            justify=column.align,
            no_wrap=column.is_whole and not column.is_cut,
            overflow="ellipsis" if column.is_whole or column.is_cut else "fold",
        )
    table.show_header = bool(columns)
    for _ in range(max(map(len, rows), default=0) - len(columns)):
        table.add_column(overflow="fold")
    # A column that gives way may wrap, as rich sees it: that its text does not is said cell by cell.
    cut = {number for number, column in enumerate(columns) if column.is_cut}
    for row in rows:
        table.add_row(
            *(
                Text(plain(_text(cell)), style=_style(cell), no_wrap=number in cut or None)
                for number, cell in enumerate(row)
            )
        )
    return table


def plain(text: str) -> str:
    """A text without what would break a line or a column in two, or move the cursor."""
    return "".join(char if char.isprintable() else " " for char in text)


def _style(cell: Cell) -> str:
    return cell[1] if isinstance(cell, tuple) else ""


def _text(cell: Cell) -> str:
    return cell[0] if isinstance(cell, tuple) else cell
