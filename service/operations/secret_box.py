"""Secrets at rest: sealed with a key that is not in the database."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from cryptography.fernet import Fernet, InvalidToken

_FILE = "secret.key"


class SecretBox:
    """Seals and opens the hidden variables of a group's roles, and cursors. The key is 32 bytes in url-safe
    base64; ValueError if it is not."""

    def __init__(self, key: str) -> None:
        try:
            self._fernet = Fernet(key)
        except ValueError:
            raise ValueError("MUSTER_SECRET_KEY is not a key: 32 bytes in url-safe base64") from None
        cursor_key = hashlib.sha256(b"cursor:" + base64.urlsafe_b64decode(key)).digest()
        self._cursors = Fernet(base64.urlsafe_b64encode(cursor_key))
        self._digest_key = hashlib.sha256(b"digest:" + base64.urlsafe_b64decode(key)).digest()

    def seal(self, hidden: Sequence[Mapping[str, str]]) -> bytes | None:
        """One sealed value for all roles, None if there is nothing to hide."""
        if not any(hidden):
            return None
        return self._fernet.encrypt(msgspec.json.encode(hidden))

    def open(self, sealed: bytes | None) -> tuple[dict[str, str], ...]:
        """What was sealed, by the position of the role; empty if nothing was. Raises
        cryptography.fernet.InvalidToken if it was sealed with another key."""
        if sealed is None:
            return ()
        return msgspec.json.decode(self._fernet.decrypt(sealed), type=tuple[dict[str, str], ...])

    def seal_cursor(self, content: bytes) -> str:
        """Text that a caller may keep and not read."""
        return self._cursors.encrypt(content).decode()

    def open_cursor(self, cursor: str) -> bytes:
        """ValueError if it is not from `seal_cursor`."""
        try:
            return self._cursors.decrypt(cursor.encode())
        except InvalidToken:
            raise ValueError("not a cursor of this installation") from None

    def digest(self, body: bytes) -> bytes:
        """A digest of something that may hold secrets: useless without the key."""
        return hmac.digest(self._digest_key, body, "sha256")


def open_box(*, key: str | None, data: Path) -> SecretBox:
    """The box of this installation: `key`, else the file `secret.key` in the data folder, which is
    made (0600) if it is not there. Several processes may do so at once."""
    if key is not None:
        return SecretBox(key)
    path = data / _FILE
    if not path.exists():
        _make_key_file(path)
    return SecretBox(path.read_text().strip())


def _make_key_file(path: Path) -> None:
    """Written apart (0600) and linked into place: nobody reads half a key, and the first one stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, own = tempfile.mkstemp(prefix=f"{_FILE}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(Fernet.generate_key() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(own, path)
        except FileExistsError:
            return
    finally:
        Path(own).unlink()
