"""Submit keys of requests that are written in one transaction, as if they came one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from service.operations.submission import Draft
from service.store.idempotency import KeyedGroups, KeyId, find_keys, give_back_keys, take_keys


def take_first(conn: Connection, drafts: Sequence[Draft]) -> dict[KeyId, KeyedGroups]:
    """Have the first request with each key take it. Returns what those keys stand for that somebody else
    has. A key is asked for again if its groups were dropped between two looks (K1)."""
    missing = _by_key(drafts)
    others: dict[KeyId, KeyedGroups] = {}
    while missing:
        left = missing.keys() - take_keys(conn, missing.values())
        found = find_keys(conn, left) if left else {}
        others |= found
        missing = {key: missing[key] for key in left - found.keys()}
    return others


def settle_keys(conn: Connection, drafts: Sequence[Draft], *, others: Mapping[KeyId, KeyedGroups]) -> None:
    """Once it is known what comes to be: a key is that of the first request that does, and nobody's if
    all were refused."""
    first = _by_key(drafts)
    kept = _by_key([draft for draft in drafts if draft.comes_to_be])
    wrong = [key for key in first.keys() - others.keys() if kept.get(key) is not first[key]]
    if wrong:
        give_back_keys(conn, wrong)
        if moved := [kept[key] for key in wrong if key in kept]:
            take_keys(conn, moved)


def _by_key(drafts: Sequence[Draft]) -> dict[KeyId, KeyedGroups]:
    first: dict[KeyId, KeyedGroups] = {}
    for draft in drafts:
        if draft.keyed is not None:
            first.setdefault(draft.keyed.key.id, draft.keyed)
    return first
