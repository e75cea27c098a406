"""One verb on several groups: all are tried, the first failure decides the exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import rich_click as click

from service.cli import exits
from service.cli.pipes import write_line
from service.cli.printer import Printer
from service.cli.styles import status_cell
from service.client.errors import ApiError

if TYPE_CHECKING:
    from service.client.groups import Group


def act_on_groups(out: Printer, texts: Sequence[str], action: Callable[[str], Group]) -> int:
    """Do `action` for each GROUP and print what became of it."""
    code = exits.OK
    done: list[Group] = []
    for text in texts:
        try:
            group = action(text)
        except (ApiError, click.ClickException) as error:
            failed = exits.of_status(error.status) if isinstance(error, ApiError) else error.exit_code
            code = code or failed
            # What is wrong with a reference names it already.
            message = error.message if isinstance(error, click.ClickException) else f"{text}: {error}"
            write_line(sys.stderr, f"Error: {message}")
            continue
        done.append(group)
        if not out.is_json:
            held = "held" if group.is_held else ""
            out.table((), [(group.id, group.name, status_cell(group.status), held)])
    if out.is_json:
        out.json(done[0] if len(texts) == 1 and done else {"groups": done})
    return code
