"""API keys: stored as SHA-256 digests, never as they are."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, RowMapping, select, update
from sqlalchemy.dialects.postgresql import insert

from service.domain.principal import KeyRole, Principal
from service.store.models.access import keys


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """What is known of a key, without the key."""

    id: uuid.UUID
    tenant: str
    user: str
    role: KeyRole
    created_at: datetime
    revoked_at: datetime | None


def find_principal(conn: Connection, digest: bytes) -> Principal | None:
    """Who a key that is not revoked belongs to."""
    query = select(keys.c.tenant, keys.c.user_name, keys.c.role).where(
        keys.c.digest == digest, keys.c.revoked_at.is_(None)
    )
    row = conn.execute(query).one_or_none()
    return None if row is None else Principal(tenant=row.tenant, user=row.user_name, role=KeyRole(row.role))


def add_key(conn: Connection, record: KeyRecord, *, digest: bytes) -> bool:
    """Store a key; False if this digest is there already, revoked or not."""
    statement = (
        insert(keys)
        .values(
            public_id=record.id,
            digest=digest,
            tenant=record.tenant,
            user_name=record.user,
            role=record.role.value,
            created_at=record.created_at,
        )
        .on_conflict_do_nothing(index_elements=["digest"])
        .returning(keys.c.id)
    )
    return conn.execute(statement).one_or_none() is not None


def list_keys(conn: Connection) -> tuple[KeyRecord, ...]:
    return tuple(_record(row) for row in conn.execute(select(keys).order_by(keys.c.id)).mappings())


def revoke(conn: Connection, key_id: uuid.UUID, *, now: datetime) -> KeyRecord | None:
    """Revoke a key once; again changes nothing. None if there is no such key."""
    conn.execute(
        update(keys).where(keys.c.public_id == key_id, keys.c.revoked_at.is_(None)).values(revoked_at=now)
    )
    row = conn.execute(select(keys).where(keys.c.public_id == key_id)).mappings().one_or_none()
    return None if row is None else _record(row)


def _record(row: RowMapping) -> KeyRecord:
    return KeyRecord(
        id=row["public_id"],
        tenant=row["tenant"],
        user=row["user_name"],
        role=KeyRole(row["role"]),
        created_at=row["created_at"],
        revoked_at=row["revoked_at"],
    )
