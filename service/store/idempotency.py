"""Submit keys: the same key and body give the same groups, however often and at once they come."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

from sqlalchemy import Connection, text

#: Tenant, owner and key.
KeyId: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitKey:
    """An Idempotency-Key of one user. `body_digest` tells one request from another."""

    tenant: str
    owner: str
    key: str
    body_digest: bytes

    @property
    def id(self) -> KeyId:
        return self.tenant, self.owner, self.key


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedGroups:
    """A key with the groups that it stands for. `created_at` is the instant of their submission (K1)."""

    key: SubmitKey
    group_ids: tuple[UUID, ...]
    created_at: datetime


def take_keys(conn: Connection, wanted: Collection[KeyedGroups]) -> set[KeyId]:
    """Write those keys that nobody has; which they are. If a transaction under way has one, this waits for
    its end, and has the key if that one rolled back. Keys are taken in their order, whoever takes them, so
    that two who want several do not wait for each other."""
    rows = conn.execute(
        _TAKE,
        {
            "tenants": [each.key.tenant for each in wanted],
            "owners": [each.key.owner for each in wanted],
            "keys": [each.key.key for each in wanted],
            "digests": [each.key.body_digest for each in wanted],
            "groups": [f"{{{','.join(map(str, each.group_ids))}}}" for each in wanted],
            "instants": [each.created_at for each in wanted],
        },
    )
    return {(row.tenant, row.owner, row.key) for row in rows}


def find_keys(conn: Connection, ids: Collection[KeyId]) -> dict[KeyId, KeyedGroups]:
    """Those of these keys that are taken."""
    rows = conn.execute(_FIND, _listed(ids))
    found = [
        KeyedGroups(
            key=SubmitKey(
                tenant=row.tenant, owner=row.owner, key=row.key, body_digest=bytes(row.body_digest)
            ),
            group_ids=tuple(row.group_ids),
            created_at=row.created_at,
        )
        for row in rows
    ]
    return {each.key.id: each for each in found}


def give_back_keys(conn: Connection, ids: Collection[KeyId]) -> None:
    """Forget keys that this transaction took: a refused request uses up none."""
    conn.execute(_GIVE_BACK, _listed(ids))


def _listed(ids: Collection[KeyId]) -> dict[str, list[str]]:
    return {
        "tenants": [tenant for tenant, _, _ in ids],
        "owners": [owner for _, owner, _ in ids],
        "keys": [key for _, _, key in ids],
    }


_IDS = (
    "(tenant, owner, key) IN (SELECT * FROM unnest("
    "CAST(:tenants AS text[]), CAST(:owners AS text[]), CAST(:keys AS text[])))"
)
_TAKE = text(
    "INSERT INTO idempotency_keys (tenant, owner, key, body_digest, group_ids, created_at)"
    " SELECT t, o, k, d, CAST(g AS uuid[]), i FROM unnest("
    "CAST(:tenants AS text[]), CAST(:owners AS text[]), CAST(:keys AS text[]), CAST(:digests AS bytea[]),"
    " CAST(:groups AS text[]), CAST(:instants AS timestamptz[])) AS wanted (t, o, k, d, g, i)"
    " ORDER BY t, o, k ON CONFLICT DO NOTHING RETURNING tenant, owner, key"
)
_FIND = text(
    "SELECT tenant, owner, key, body_digest, group_ids, created_at FROM idempotency_keys"  # noqa: S608
    f" WHERE {_IDS}"
)
_GIVE_BACK = text(f"DELETE FROM idempotency_keys WHERE {_IDS}")  # noqa: S608
