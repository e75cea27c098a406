"""Words that a shell completes from the server: groups, queues and nodes.

Somebody has pressed a key: a server that does not answer at once, or refuses, completes nothing and says
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

import rich_click as click
from click.shell_completion import CompletionItem

from service.cli.session import Session
from service.cli.styles import has_ended

if TYPE_CHECKING:
    from service.client import Client
    from service.client.groups import GroupBrief

_ANSWER_SECONDS = 1.0
#: Of so many of the newest groups.
_LOOKED_AT = 200
#: What no shell takes for more than a word.
_PLAIN = re.compile(r"[\w.@:+-]+")
#: As `muster list` shows an id.
_SHOWN = 12

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def complete_groups(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names, and ids as `muster list` shows them once the first characters of one are there."""
    return _ask(ctx, lambda client: _groups(islice(client.list_groups(), _LOOKED_AT), incomplete))


def complete_live_groups(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Only of groups that have not ended."""

    def live(client: Client) -> Iterator[GroupBrief]:
        found = islice(client.list_groups(), _LOOKED_AT)
        return (group for group in found if group.status and not has_ended(group.status))

    return _ask(ctx, lambda client: _groups(live(client), incomplete))


def complete_queues(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _ask(ctx, lambda client: _words((queue.name for queue in client.queues.list()), incomplete))


def complete_cohorts(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _ask(ctx, lambda client: _words((cohort.name for cohort in client.cohorts.list()), incomplete))


def complete_nodes(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _ask(ctx, lambda client: _words((node.name for node in client.nodes.list()), incomplete))


def _ask(ctx: click.Context, look: Callable[[Client], list[CompletionItem]]) -> list[CompletionItem]:
    from service.client import Client, ClientError

    session = ctx.find_object(Session)
    if session is None:
        return []
    # No command has run, so nobody has told the session what stands before the command.
    given = ctx.find_root().params
    session.url, session.data = given.get("url"), given.get("data")
    with (
        suppress(ClientError, OSError),
        Client(session.address(), answer_seconds=_ANSWER_SECONDS, is_patient=False) as client,
    ):
        return look(client)
    return []


def _groups(groups: Iterable[GroupBrief], incomplete: str) -> list[CompletionItem]:
    words: dict[str, str | None] = {}
    for group in groups:
        if group.name is not None:
            words.setdefault(group.name, group.status)
        if group.id is not None and incomplete:
            words.setdefault(group.id[-_SHOWN:], f"{group.name}, {group.status}")
    return _items(words, incomplete)


def _words(words: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return _items(dict.fromkeys(words), incomplete)


def _items(words: dict[str, str | None], incomplete: str) -> list[CompletionItem]:
    return [
        CompletionItem(word, help=help_)
        for word, help_ in words.items()
        if word.startswith(incomplete) and _PLAIN.fullmatch(word)
    ]
