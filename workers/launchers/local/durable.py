"""Files that are whole or absent, and that survive the machine where they must."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from service.points import reach

_SYNCED_AT_ONCE = 8


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


def append_line(path: Path, line: str, *, is_durable: bool = True) -> None:
    """Add one line to `path`, which must be there.

    It begins a line of its own even behind a half-written one that a crash of the machine left.
    """
    _write(path, f"\n{line}\n", flags=os.O_WRONLY | os.O_APPEND, is_durable=is_durable)


@contextmanager
def synced_together() -> Iterator[Callable[[Path, str], None]]:
    """Gives a function that adds a line to a file, which it makes if it is not there. All that it wrote is
    durable at the end: files are synced side by side, for what waits for the disk at the same time goes
    there at once."""
    with ExitStack() as opened:
        files: list[int] = []

        def append(path: Path, line: str) -> None:
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            opened.callback(os.close, file)
            files.append(file)
            _write_all(file, f"\n{line}\n")

        yield append
        _sync(files)


def _sync(files: Sequence[int]) -> None:
    if len(files) < 2:
        for file in files:
            os.fsync(file)
        return
    # Here, because the process that forks supervisors imports this module, and as little else as it can.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(len(files), _SYNCED_AT_ONCE), thread_name_prefix="sync") as pool:
        list(pool.map(os.fsync, files))


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
    file = os.open(path, flags, 0o600)
    try:
        _write_all(file, text)
        if is_durable:
            os.fsync(file)
    finally:
        os.close(file)


def _write_all(file: int, text: str) -> None:
    content = text.encode()
    while content:
        content = content[os.write(file, content) :]
