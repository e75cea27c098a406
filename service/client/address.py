"""Where the server is, and with which key: from the environment, else from the data folder."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from service.client.errors import AddressWrong

DEFAULT_URL = "http://127.0.0.1:8420"

#: An address of IPv4 or a name.
_HOST = re.compile(r"(?!-)[\w-]{1,63}(?<!-)(\.(?!-)[\w-]{1,63}(?<!-))*\.?")

#: Files that a running stack leaves in its data folder.
ADMIN_KEY_FILE = "admin.key"
URL_FILE = "server.url"


@dataclass(frozen=True, slots=True)
class Address:
    """`url` without a path; `key` None asks without one. Raises AddressWrong."""

    url: str
    key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _parse(self.url)
        # A header takes no line break, and what is beyond ASCII would be sent in one of many ways.
        if self.key is not None and not (self.key.isascii() and self.key.isprintable()):
            raise AddressWrong("the key (MUSTER_API_KEY) has characters that no key has")


def find_address(environ: Mapping[str, str], *, url: str | None = None, data: Path | None = None) -> Address:
    """The address that `url`, MUSTER_URL or the running stack of the data folder names; the key of
    MUSTER_API_KEY, else, for that stack alone, the admin's key of the data folder. Raises AddressWrong."""
    data = data or find_data_folder(environ)
    stack = _read_own(data / URL_FILE)
    url = url or environ.get("MUSTER_URL") or stack or DEFAULT_URL
    key = environ.get("MUSTER_API_KEY")
    if not key and stack and _origin(url) == _origin(stack):
        # Sent anywhere else it would make whoever listens there an admin here.
        key = read_admin_key(data)
    return Address(url.rstrip("/"), key or None)


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


def _origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port; the names of this machine are one."""
    scheme, host, port = _parse(url)
    return scheme, "127.0.0.1" if host == "localhost" else host, port


def _parse(url: str) -> tuple[str, str, int | None]:
    if "@" in url:
        # Not repeated: what stands before it may be a secret.
        raise AddressWrong("the address of a server takes no user and no password")
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError as error:
        raise AddressWrong(f"{url!r} is not the address of a server: {error}") from None
    host = parts.hostname or ""
    is_host = ":" in host or _HOST.fullmatch(host)
    is_plain = url.isprintable() and not (parts.query or parts.fragment)
    if parts.scheme not in {"http", "https"} or not (is_host and is_plain):
        raise AddressWrong(f"{url!r} is not the address of a server, such as {DEFAULT_URL}")
    return parts.scheme, host, port


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
    except (OSError, UnicodeDecodeError):
        return None
