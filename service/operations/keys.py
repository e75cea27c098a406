"""Keys of the API: made, listed, revoked, and looked up for each request."""

from __future__ import annotations

import hashlib
import secrets
import uuid
from dataclasses import dataclass, field
from datetime import datetime

import uuid_utils.compat
from sqlalchemy import Engine

from service.domain.errors import NotFound
from service.domain.principal import KeyRole, Principal
from service.points import reach
from service.store import keys as store
from service.store.keys import KeyRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key that was just made: the only time that it is seen."""

    record: KeyRecord
    key: str = field(repr=False)


def digest_of(key: str) -> bytes:
    """Keys are long and random, so one round of SHA-256 is enough."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def make_key() -> str:
    return f"muster_{secrets.token_urlsafe(32)}"


def create_key(engine: Engine, *, tenant: str, user: str, role: KeyRole, now: datetime) -> NewKey:
    key = make_key()
    record = KeyRecord(
        id=uuid_utils.compat.uuid7(), tenant=tenant, user=user, role=role, created_at=now, revoked_at=None
    )
    with engine.begin() as conn:
        store.add_key(conn, record, digest=digest_of(key))
    reach("api.key-created")
    return NewKey(record=record, key=key)


def list_keys(engine: Engine) -> tuple[KeyRecord, ...]:
    with engine.begin() as conn:
        return store.list_keys(conn)


def revoke_key(engine: Engine, key_id: uuid.UUID, *, now: datetime) -> KeyRecord:
    """The key is refused from now on (by other API processes within a second). NotFound."""
    with engine.begin() as conn:
        record = store.revoke(conn, key_id, now=now)
    reach("api.key-revoked")
    if record is None:
        raise NotFound(f"There is no key {key_id}.")
    return record


def find_principal(engine: Engine, digest: bytes) -> Principal | None:
    with engine.connect() as conn:
        return store.find_principal(conn, digest)
