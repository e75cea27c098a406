"""`muster update`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rich_click as click

from service.cli.acting import act_on_groups
from service.cli.completing import complete_live_groups
from service.cli.fields import priority_of
from service.cli.references import find_group_id
from service.cli.session import Session, pass_session, print_options


@click.command()
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_live_groups)
@click.option("--priority", "-p", metavar="NUMBER|CLASS", help="High goes first.")
@click.option("--time-limit", metavar="TIME", help="From its admission: 90s, 10m, 4h; `none`: no limit.")
@click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="All labels; `none`: no label.")
@print_options
@pass_session
def update(session: Session, /, *, groups: tuple[str, ...], **changes: Any) -> int:
    """Change groups that have not ended.

    A time limit that is over at once ends what runs. --label replaces all labels that were set before.
    """
    fields = fields_of(changes)
    if not fields:
        raise click.UsageError("say what to change")
    with session.client() as client:
        return act_on_groups(
            session.out, groups, lambda text: client.update(find_group_id(client, text), fields)
        )


def fields_of(changes: dict[str, Any]) -> dict[str, Any]:
    """What was said, as the API names it."""
    fields: dict[str, Any] = {}
    if changes["priority"] is not None:
        fields["priority"] = priority_of(changes["priority"])
    if (limit := changes["time_limit"]) is not None:
        fields["time_limit"] = None if limit == "none" else limit
    if changes["labels"]:
        fields["labels"] = _labels(changes["labels"])
    return fields


def _labels(texts: Sequence[str]) -> dict[str, str]:
    if list(texts) == ["none"]:
        return {}
    labels: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--label")
        labels[name] = value
    return labels
