"""Keys of the API."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from service.client.transport import Transport, segment


class Key(Struct, frozen=True, kw_only=True):
    """What is known of a key, without the key."""

    id: str
    tenant: str
    user: str
    role: str
    created_at: datetime
    revoked_at: datetime | None


class NewKey(Key, frozen=True, kw_only=True):
    """A key that was just made. `key` is never shown again."""

    key: str

    def __repr__(self) -> str:
        return f"NewKey(id={self.id!r}, user={self.user!r})"


class _KeyList(Struct, frozen=True):
    keys: list[Key]


class Keys:
    """Only for admins."""

    def __init__(self, transport: Transport) -> None:
        self._ask = transport.ask

    def list(self) -> list[Key]:
        return self._ask("GET", "/v1/keys", _KeyList).keys

    def create(self, user: str, *, tenant: str = "default", role: str = "user") -> NewKey:
        body = {"user": user, "tenant": tenant, "role": role}
        return self._ask("POST", "/v1/keys", NewKey, body=body, is_repeatable=False)

    def revoke(self, key_id: str) -> Key:
        return self._ask("DELETE", f"/v1/keys/{segment(key_id)}", Key)
