"""A hint for whoever sets something for a GPU model that no node has: it may come, or be misspelt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from service.cli.amounts import NAMES

if TYPE_CHECKING:
    from service.cli.session import Session
    from service.client import Client

#: Fields of queues and cohorts that name models, alone or with amounts.
_FIELDS = (
    "flavors",
    "nominal_quota",
    "borrowing_limit",
    "lending_limit",
    "limit",
    "user_limit",
    "group_limit",
)
#: So many are named.
_NAMED = 10


def hint_at_models(session: Session, client: Client, said: Iterable[Mapping[str, Any]]) -> None:
    """Of what was said of queues and cohorts; nothing is asked if no model was named."""
    named = {model for fields in said for model in _models(fields)}
    if session.is_json or not named:
        return
    known = {gpu.model for node in client.nodes.list() for gpu in node.gpus}
    if unknown := sorted(named - known):
        have = f"the nodes have {_some(sorted(known))}" if known else "the nodes have none"
        session.out.note(f"Hint: no node has GPUs of {_some(unknown)}; {have}.")


def _models(fields: Mapping[str, Any]) -> Iterable[str]:
    for field in _FIELDS:
        yield from (name for name in fields.get(field) or () if isinstance(name, str) and name not in NAMES)


def _some(models: list[str]) -> str:
    more = len(models) - _NAMED
    return ", ".join(models[:_NAMED]) + (f" and {more} more" if more > 0 else "")
