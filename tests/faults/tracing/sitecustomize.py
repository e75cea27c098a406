"""Has every process that finds this folder in PYTHONPATH write down its writes, and the points it reaches.

One JSON line for each: part, pid, thread, kind (`point`, or what was written to), a word about it, and
the innermost functions of ours. What counts as a write: a transaction that changed something, a command
to Redis that is no reading, a process that is made or sent a signal, a file of the launcher that is
opened for writing, linked, renamed or removed, and a transaction of the simulated launcher.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

_FRAMES = 5
_CHANGES = re.compile(r"\b(INSERT|UPDATE|DELETE|COPY|TRUNCATE|pg_terminate_backend)\b")
_LOCKS = re.compile(r"FOR (NO KEY )?UPDATE|FOR UPDATE")
#: BLPOP writes only if it finds something; who pops says so by a point.
_READS = frozenset(
    b"GET MGET HGET HMGET HGETALL HEXISTS HLEN LLEN LRANGE LPOS SMEMBERS SCARD SISMEMBER ZCARD ZRANGE "
    b"ZSCORE ZRANGEBYSCORE EXISTS TTL PTTL TYPE PING ECHO INFO TIME COMMAND CLIENT HELLO AUTH SELECT "
    b"SCRIPT WATCH UNWATCH MULTI EXEC DISCARD SUBSCRIBE UNSUBSCRIBE BLPOP BLMOVE".split()
)
#: Signals that only tell somebody to look can be lost.
_ENDING = frozenset({signal.SIGTERM, signal.SIGKILL})
_WRITING = os.O_WRONLY | os.O_RDWR


class Trace:
    """Lines of at most a page, each written at once, so that processes and threads do not mix them."""

    def __init__(self, path: str, part: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._part = part

    def note(self, kind: str, what: str) -> None:
        frames: list[str] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and len(frames) < _FRAMES:
            if (place := _own(frame.f_code.co_filename)) is not None:
                frames.append(f"{place}:{frame.f_code.co_name}")
            frame = frame.f_back
        line = {
            "part": self._part,
            "pid": os.getpid(),
            "thread": threading.get_native_id(),
            "kind": kind,
            "what": what[:200],
            "frames": frames,
        }
        os.write(self._file, json.dumps(line).encode() + b"\n")


def _own(path: str) -> str | None:
    for package in ("/service/", "/workers/"):
        before, found, after = path.rpartition(package)
        if found and "site-packages" not in before and not path.endswith("/service/points.py"):
            return found.lstrip("/") + after
    return None


def trace_points(trace: Trace) -> None:
    from service import points

    reach = points.reach

    def traced(name: str) -> None:
        trace.note("point", name)
        reach(name)

    points.reach = traced


def trace_system(trace: Trace, data: str) -> None:
    def hear(event: str, given: tuple[Any, ...]) -> None:
        if event in {"os.fork", "subprocess.Popen"}:
            trace.note("process", event)
        elif event in {"os.kill", "os.killpg"} and given[1] in _ENDING:
            trace.note("process", f"{event} {int(given[1])}")
        elif (event in {"os.link", "os.rename", "os.remove"} and data in str(given[0])) or (
            event == "open" and isinstance(given[2], int) and given[2] & _WRITING and data in str(given[0])
        ):
            trace.note("file", f"{event} {given[0]}")

    sys.addaudithook(hear)

    send = signal.pidfd_send_signal

    def traced(handle: int, number: int, *given: Any) -> None:
        if number in _ENDING:
            trace.note("process", f"pidfd_send_signal {int(number)}")
        send(handle, number, *given)

    signal.pidfd_send_signal = traced


def trace_simulated(trace: Trace) -> None:
    """The simulated launcher's file."""
    import sqlite3

    connect = sqlite3.connect

    def hear(statement: str) -> None:
        if statement == "COMMIT":
            trace.note("file", statement)

    def traced(*given: Any, **named: Any) -> Any:
        conn = connect(*given, **named)
        conn.set_trace_callback(hear)
        return conn

    sqlite3.connect = traced


def trace_database(trace: Trace) -> None:
    """At the driver, which all ways lead through. The changes of a connection are told at its commit."""
    from psycopg import Connection, Cursor

    execute, copy, commit, roll_back = Cursor.execute, Cursor.copy, Connection.commit, Connection.rollback

    def traced_execute(self: Any, query: Any, *given: Any, **named: Any) -> Any:
        done = execute(self, query, *given, **named)
        statement = _text(query)
        if statement == "COMMIT":
            tell(self.connection)
        # What a pipeline does is not known yet, and counts.
        elif _changes(statement) and not (_is_plain(statement) and self.rowcount == 0):
            note_change(self.connection, statement)
        return done

    def traced_copy(self: Any, statement: Any, *given: Any, **named: Any) -> Any:
        note_change(self.connection, _text(statement))
        return copy(self, statement, *given, **named)

    def traced_commit(self: Any) -> None:
        tell(self)
        commit(self)

    def traced_roll_back(self: Any) -> None:
        self.__dict__.pop("_changes", None)
        roll_back(self)

    def note_change(conn: Any, statement: str) -> None:
        conn.__dict__.setdefault("_changes", []).append(statement.lstrip()[:20])

    def tell(conn: Any) -> None:
        if changes := conn.__dict__.pop("_changes", None):
            trace.note("database", " | ".join(changes))

    Cursor.execute = traced_execute  # type: ignore[method-assign]
    Cursor.copy = traced_copy  # type: ignore[method-assign]
    Connection.commit = traced_commit  # type: ignore[method-assign]
    Connection.rollback = traced_roll_back  # type: ignore[method-assign]


def _text(query: Any) -> str:
    if isinstance(query, bytes):
        return query.decode()
    return query if isinstance(query, str) else str(query.as_string(None))


def _changes(statement: str) -> bool:
    return _CHANGES.search(_LOCKS.sub("", statement)) is not None


def _is_plain(statement: str) -> bool:
    return statement.lstrip().startswith(("INSERT", "UPDATE", "DELETE"))


def trace_redis(trace: Trace) -> None:
    from redis.connection import AbstractConnection

    send: Callable[..., None] = AbstractConnection.send_packed_command

    def traced(self: Any, command: Any, *given: Any, **named: Any) -> None:
        packed = b"".join([command] if isinstance(command, bytes) else command)
        names = [name.upper() for name in re.findall(rb"\*\d+\r\n\$\d+\r\n([A-Za-z]+)\r\n", packed)]
        if writes := [name.decode() for name in names if name not in _READS]:
            trace.note("redis", " ".join(writes))
        send(self, command, *given, **named)

    AbstractConnection.send_packed_command = traced  # type: ignore[method-assign]


def main(path: str) -> None:
    part = sys.orig_argv[-1] if "service.cli" in sys.orig_argv else "spawner"
    if part not in {"api", "worker", "dispatcher", "ticker", "spawner"}:
        return
    if part == "spawner" and "workers.launchers.local.spawner" not in sys.orig_argv:
        return
    trace = Trace(path, part)
    trace_points(trace)
    trace_system(trace, os.environ["TRACE_FILES"])
    if part != "spawner":
        trace_database(trace)
        trace_redis(trace)
        trace_simulated(trace)
    if python := os.environ.get("TRACE_PYTHON"):
        # The spawner is given no environment but its own: this one gives it ours.
        sys.executable = python


if "TRACE_TO" in os.environ:
    main(os.environ["TRACE_TO"])
