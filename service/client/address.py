"""Where the server is, and with which key: from the environment, else from the data folder."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

DEFAULT_URL = "http://127.0.0.1:8420"

#: Files that a running stack leaves in its data folder.
ADMIN_KEY_FILE = "admin.key"
URL_FILE = "server.url"


@dataclass(frozen=True, slots=True)
class Address:
    """`url` without a path; `key` None asks without one."""

    url: str
    key: str | None = field(default=None, repr=False)


def find_address(environ: Mapping[str, str], *, url: str | None = None, data: Path | None = None) -> Address:
    """The address that `url`, MUSTER_URL or the running stack of the data folder names; the key of
    MUSTER_API_KEY, else the admin's key of the data folder."""
    data = data or find_data_folder(environ)
    url = url or environ.get("MUSTER_URL") or _read_own(data / URL_FILE) or DEFAULT_URL
    return Address(url.rstrip("/"), environ.get("MUSTER_API_KEY") or read_admin_key(data))


def find_data_folder(environ: Mapping[str, str]) -> Path:
    """MUSTER_DATA, else for root /var/lib/muster, else the user's data folder; for a user without a
    home a folder under /tmp."""
    if named := environ.get("MUSTER_DATA"):
        return Path(named).absolute()
    if os.geteuid() == 0:
        return Path("/var/lib/muster")
    import platformdirs

    folder = platformdirs.user_data_path("muster", appauthor=False)
    if _can_be_made(folder):
        return folder
    return Path(tempfile.gettempdir()) / f"muster-{os.geteuid()}"


def read_admin_key(data: Path) -> str | None:
    """The admin's key of a stack on `data`; None if there is none that this user may read."""
    return _read_own(data / ADMIN_KEY_FILE)


def _can_be_made(folder: Path) -> bool:
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)


def _read_own(path: Path) -> str | None:
    """Only files of this user or root are believed: others can make folders under /tmp."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_uid not in {os.geteuid(), 0}:
            return None
        return path.read_text(encoding="utf-8").strip() or None
    except OSError:
        return None
