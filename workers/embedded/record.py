"""The record that a server leaves in its data folder, so that a killed owner's server can be ended."""

from __future__ import annotations

import logging
import os
import signal
import time
from dataclasses import asdict
from pathlib import Path

import msgspec
import psutil

from workers.embedded.identity import ProcessIdentity, is_alive

RECORD = "server.json"
#: Read by people at a terminal: without a set-up the standard library writes warnings to standard error.
_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.02


class _Record(msgspec.Struct):
    boot_id: str
    pid: int
    start: str
    stop_signal: str


def write_record(data_dir: Path, identity: ProcessIdentity, *, stop_signal: signal.Signals) -> None:
    """Write who serves `data_dir`, whole or not at all, also when the machine loses its power.

    The folder is not synced: after that nobody runs, and a record that is missing says just this.
    """
    content = msgspec.json.encode(_Record(**asdict(identity), stop_signal=stop_signal.name))
    draft = data_dir / f"{RECORD}.new"
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(data_dir / RECORD)


def erase_record(data_dir: Path) -> None:
    """Erase the record of a server that has ended."""
    (data_dir / RECORD).unlink(missing_ok=True)


def find_leftover(data_dir: Path) -> ProcessIdentity | None:
    """Find the server that an earlier owner of `data_dir` left running."""
    found = _read(data_dir)
    return found[0] if found and is_alive(found[0]) else None


def end_leftover(data_dir: Path, *, grace_seconds: float = 30.0) -> bool:
    """End the server that an earlier, killed owner left; True if there was one.

    Only the recorded process is touched, and only while boot, pid and start are those of the record.
    The caller owns `data_dir` (holds its lock), so that no other owner's server can be meant.
    """
    found = _read(data_dir)
    if found is None:
        erase_record(data_dir)
        return False
    identity, stop_signal = found
    was_alive = is_alive(identity)
    if was_alive and not _end(identity, stop_signal, grace_seconds=grace_seconds):
        _end(identity, signal.SIGKILL, grace_seconds=grace_seconds)
    erase_record(data_dir)
    return was_alive


def _read(data_dir: Path) -> tuple[ProcessIdentity, signal.Signals] | None:
    """None without a record, and for one that cannot be read: who it meant is unknown.

    What such a one meant is not looked for by other means: nobody is signalled who was not recorded. A
    server that lives on holds its own lock, and the next start says so.
    """
    path = data_dir / RECORD
    try:
        record = msgspec.json.decode(path.read_bytes(), type=_Record)
        stop_signal = signal.Signals[record.stop_signal]
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError) as error:
        _log.warning(
            "%s cannot be read (%s): whether the process that it meant still runs is unknown", path, error
        )
        return None
    return ProcessIdentity(record.boot_id, record.pid, record.start), stop_signal


def _end(identity: ProcessIdentity, stop_signal: signal.Signals, *, grace_seconds: float) -> bool:
    try:
        psutil.Process(identity.pid).send_signal(stop_signal)
    except psutil.NoSuchProcess:
        return True
    deadline = time.monotonic() + grace_seconds
    while is_alive(identity):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
