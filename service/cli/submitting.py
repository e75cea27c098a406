"""Submit, say what came to be, and watch it if that is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.cli import exits
from service.cli.printer import Printer

if TYPE_CHECKING:
    from service.cli.files import GroupFile
    from service.client import Client
    from service.client.groups import Submitted


def submit_groups(
    client: Client, file: GroupFile, out: Printer, *, is_watched: bool = False, key: str | None = None
) -> int:
    """Submit and return the exit code."""
    if file.is_batch:
        submitted = client.submit_batch(file.groups, key=key)
        ids = [group.id for group in submitted]
        _tell_batch(submitted, out, is_watched=is_watched)
    else:
        group = client.submit(file.groups[0], key=key)
        ids = [group.id]
        if out.is_json and not is_watched:
            out.json(group)
        elif not out.is_json:
            _tell(group.id, group.name, out)
    if not is_watched:
        return exits.OK
    from service.cli.watching import watch_groups

    return watch_groups(client, ids, out)


def _tell_batch(groups: list[Submitted], out: Printer, *, is_watched: bool) -> None:
    if out.is_json:
        if not is_watched:
            out.json({"groups": groups})
        return
    for group in groups:
        _tell(group.id, group.name, out)


def _tell(group_id: str, name: str, out: Printer) -> None:
    """The id alone in a pipe, so that `ID=$(muster submit FILE)` works."""
    if out.is_terminal:
        out.line(f"Submitted {name}: {group_id}")
    else:
        out.line(group_id)
