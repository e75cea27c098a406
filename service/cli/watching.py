"""Follow groups to their end: one line for each change."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from service.cli import exits
from service.cli.news import News
from service.cli.outcomes import describe_end, describe_places, describe_wait
from service.cli.printer import Printer
from service.cli.styles import has_ended, status_cell
from service.client.errors import ApiError, Unreachable
from service.domain.status import Status

if TYPE_CHECKING:
    from service.client import Client
    from service.client.groups import Group

#: A server that is started anew is waited for.
_PATIENCE_SECONDS = 60.0


class _Watched:
    """One group, and what was last said of it."""

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.last: Group | None = None
        self.said: tuple[str, str] | None = None


def watch_groups(client: Client, ids: Sequence[str], out: Printer) -> int:
    """Print the changes of the groups until all have ended; the exit code says how.

    Ctrl-C ends the watching, not the groups.
    """
    watched = [_Watched(group_id) for group_id in ids]
    try:
        _follow(client, watched, out)
    except KeyboardInterrupt:
        names = " ".join(each.id for each in watched if each.last is None or not has_ended(each.last.status))
        out.note(f"No longer watching; `muster cancel {names}` ends what goes on.")
        raise
    groups = [each.last for each in watched if each.last is not None]
    if out.is_json:
        out.json(groups[0] if len(groups) == 1 else {"groups": groups})
    succeeded = all(group.status == Status.SUCCEEDED for group in groups)
    return exits.OK if succeeded else exits.GROUP_FAILED


def _follow(client: Client, watched: Sequence[_Watched], out: Printer) -> None:
    last_answer = time.monotonic()
    live = {each.id: each for each in watched}
    with closing(News(client.address, list(live))) as news:
        due = list(live)
        while live:
            for group_id in due:
                group = _ask(client, group_id, since=last_answer)
                if group is None:
                    break
                last_answer = time.monotonic()
                each = live[group_id]
                each.last = group
                _say(client, each, group, out)
                if has_ended(group.status):
                    del live[group_id]
            due = list(news.wait(live)) if live else []


def _ask(client: Client, group_id: str, *, since: float) -> Group | None:
    """The group; None if the server does not answer now, which has a limit."""
    try:
        return client.get(group_id)
    except Unreachable:
        if time.monotonic() - since > _PATIENCE_SECONDS:
            raise
    except ApiError as error:
        if exits.of_status(error.status) != exits.NO_SERVER or time.monotonic() - since > _PATIENCE_SECONDS:
            raise
    return None


def _say(client: Client, each: _Watched, group: Group, out: Printer) -> None:
    text = _text(client, group)
    if out.is_json or each.said == (group.status, text):
        return
    each.said = (group.status, text)
    out.table((), [(group.name, status_cell(group.status), text)])


def _text(client: Client, group: Group) -> str:
    """What there is to say of a group in its status."""
    if has_ended(group.status):
        return describe_end(group)
    if group.status == Status.PENDING:
        return describe_wait(client, group)
    return describe_places(group)
