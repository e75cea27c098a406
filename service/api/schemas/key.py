"""Keys on the wire. The key itself is answered once, when it is made."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from service.domain.principal import KeyRole
from service.operations.keys import NewKey
from service.store.keys import KeyRecord
from service.wire.values import AnswerStruct, Name, RequestStruct


class KeyRequest(RequestStruct, frozen=True, kw_only=True):
    """A key for `user` of `tenant`."""

    user: Name
    tenant: Name = "default"
    role: KeyRole = KeyRole.USER


class KeyAnswer(AnswerStruct, frozen=True, kw_only=True):
    """What is known of a key, without the key."""

    id: UUID
    tenant: str
    user: str
    role: KeyRole
    created_at: datetime
    revoked_at: datetime | None


class NewKeyAnswer(KeyAnswer, frozen=True, kw_only=True):
    """A key that was just made. `key` is never shown again."""

    key: str


class KeyList(AnswerStruct, frozen=True, kw_only=True):
    keys: list[KeyAnswer]


def key_answer(record: KeyRecord) -> KeyAnswer:
    return KeyAnswer(
        id=record.id,
        tenant=record.tenant,
        user=record.user,
        role=record.role,
        created_at=record.created_at,
        revoked_at=record.revoked_at,
    )


def new_key_answer(made: NewKey) -> NewKeyAnswer:
    record = made.record
    return NewKeyAnswer(
        id=record.id,
        tenant=record.tenant,
        user=record.user,
        role=record.role,
        created_at=record.created_at,
        revoked_at=None,
        key=made.key,
    )
