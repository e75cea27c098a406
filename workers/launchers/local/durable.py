"""Files that are whole or absent, and that survive the machine where they must."""

from __future__ import annotations

import os
from pathlib import Path

from service.points import reach


def create_once(path: Path, text: str, *, is_durable: bool = True) -> bool:
    """Make `path` with `text`, whole or not at all; False if it is there already.

    Of several processes that try, one succeeds: a link, unlike a rename, never replaces.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        _write(draft, text, flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC, is_durable=is_durable)
        reach("file.drafted")
        path.hardlink_to(draft)
        reach("file.linked")
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    if is_durable:
        sync_folder(path.parent)
    return True


def append_line(path: Path, line: str, *, is_durable: bool = True, creates: bool = False) -> None:
    """Add one line to `path`, which must be there unless it `creates` it.

    It begins a line of its own even behind a half-written one that a crash of the machine left.
    """
    flags = os.O_WRONLY | os.O_APPEND | (os.O_CREAT if creates else 0)
    _write(path, f"\n{line}\n", flags=flags, is_durable=is_durable)


def sync_folder(path: Path) -> None:
    """Make what was created in or removed from `path` survive a crash of the machine."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_lines(path: Path) -> list[str]:
    """Read the whole lines of `path`; none if it is not there."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    return [line for line in text.split("\n")[:-1] if line]


def _write(path: Path, text: str, *, flags: int, is_durable: bool) -> None:
    content = text.encode()
    file = os.open(path, flags, 0o600)
    try:
        while content:
            content = content[os.write(file, content) :]
        if is_durable:
            os.fsync(file)
    finally:
        os.close(file)
