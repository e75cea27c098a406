"""The admin's key: MUSTER_API_KEY, or made at the first start in the data folder."""

from __future__ import annotations

import os
import tempfile
from datetime import datetime
from pathlib import Path

import uuid_utils.compat
from sqlalchemy import Engine

from service.domain.principal import KeyRole
from service.operations.keys import digest_of, make_key
from service.points import reach
from service.settings import Settings
from service.store import keys as store
from service.store.keys import KeyRecord

FILE = "admin.key"


def admin_key(settings: Settings) -> str:
    """The key that the settings give, else that of `admin.key` in the data folder, made (0600) if
    it is not there. Raises OSError if the folder cannot be written."""
    if settings.api_key:
        return settings.api_key
    path = settings.data / FILE
    if not path.exists():
        _write_once(path, make_key())
        reach("api.admin-key-written")
    return path.read_text().strip()


def ensure_admin_key(engine: Engine, key: str, *, now: datetime) -> bool:
    """Know the key as user `admin` of tenant `default`. False: it is known and was revoked, which a
    start does not undo."""
    record = KeyRecord(
        id=uuid_utils.compat.uuid7(),
        tenant="default",
        user="admin",
        role=KeyRole.ADMIN,
        created_at=now,
        revoked_at=None,
    )
    digest = digest_of(key)
    with engine.begin() as conn:
        is_valid = (
            store.add_key(conn, record, digest=digest) or store.find_principal(conn, digest) is not None
        )
    reach("api.admin-key-stored")
    return is_valid


def _write_once(path: Path, key: str) -> None:
    """A reader sees the whole key or no file; of two processes that start at once one wins."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{FILE}.")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(key + "\n")
        reach("api.admin-key-drafted")
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        Path(draft).unlink()
