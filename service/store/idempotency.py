"""Submit keys: the same key and body give the same groups, however often and at once they come."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, select
from sqlalchemy.dialects.postgresql import insert

from service.store.models import idempotency_keys


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitKey:
    """An Idempotency-Key of one user. `body_digest` tells one request from another."""

    tenant: str
    owner: str
    key: str
    body_digest: bytes


def take_key(conn: Connection, key: SubmitKey, *, group_ids: list[UUID], now: datetime) -> bool:
    """Write the key with the groups that it stands for. False if somebody has it: if that is a
    transaction under way, this waits for its end, and has the key if that one rolled back."""
    written = conn.execute(
        insert(idempotency_keys)
        .values(
            tenant=key.tenant,
            owner=key.owner,
            key=key.key,
            body_digest=key.body_digest,
            group_ids=group_ids,
            created_at=now,
        )
        .on_conflict_do_nothing()
        .returning(idempotency_keys.c.key)
    )
    return written.first() is not None


def find_key(conn: Connection, key: SubmitKey) -> tuple[bytes, list[UUID]] | None:
    """Body digest and groups of a key that is taken."""
    table = idempotency_keys
    row = conn.execute(
        select(table.c.body_digest, table.c.group_ids).where(
            table.c.tenant == key.tenant, table.c.owner == key.owner, table.c.key == key.key
        )
    ).first()
    return None if row is None else (bytes(row.body_digest), list(row.group_ids))
