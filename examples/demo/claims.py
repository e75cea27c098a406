"""What the demo says about what happened, each checked against what was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text


@dataclass(frozen=True)
class Claim:
    """`shown` is the evidence, for people."""

    text: str
    is_true: bool
    shown: str = ""


def claims_table(claims: Sequence[Claim]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(width=8, no_wrap=True)
    table.add_column()
    for claim in claims:
        mark = Text("  ok", style="green") if claim.is_true else Text("  FAILED", style="bold red")
        text = Text(claim.text)
        if claim.shown:
            text.append(f" ({claim.shown})", style="dim")
        table.add_row(mark, text)
    return table
