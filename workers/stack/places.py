"""The data folder and the port, made ready before anything is started."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from service.client.address import URL_FILE
from workers.stack.errors import DataFolderUnusable, PortTaken
from workers.stack.options import HOST


def make_data_folder(data: Path) -> Path:
    """Make `data` with the folders above it; others may not look into it.

    Root's is open to pass through, because PostgreSQL does not run as root. Raises DataFolderUnusable.
    """
    data = data.absolute()
    mode = 0o711 if os.geteuid() == 0 else 0o700
    missing = [folder for folder in (data, *data.parents) if not folder.exists()]
    try:
        for folder in reversed(missing):
            folder.mkdir(mode=mode, exist_ok=True)
            folder.chmod(mode)
    except OSError as error:
        raise DataFolderUnusable(f"{data} cannot be made ({error}); choose another with --data") from None
    if not data.is_dir() or not os.access(data, os.R_OK | os.W_OK | os.X_OK):
        raise DataFolderUnusable(
            f"{data} is not a folder that this user can write to; choose another with --data"
        )
    require_own(data)
    return data


def require_own(data: Path) -> None:
    """Raise DataFolderUnusable if `data` is another user's, also for root."""
    if data.stat().st_uid != os.geteuid():
        raise DataFolderUnusable(f"{data} belongs to another user; choose another with --data")


def remember_url(data: Path, url: str) -> None:
    """Leave the address where clients of this user look for it."""
    draft = data / f"{URL_FILE}.new"
    draft.write_text(url + "\n", encoding="utf-8")
    draft.replace(data / URL_FILE)


def forget_url(data: Path) -> None:
    (data / URL_FILE).unlink(missing_ok=True)


def choose_port(port: int) -> int:
    """Return `port` if nobody listens on it, a free one for 0. Raises PortTaken."""
    with socket.socket() as probe:
        # As the server does it: a port whose last connections are still going away is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            raise PortTaken(HOST, port) from None
        return int(probe.getsockname()[1])
