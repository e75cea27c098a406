"""A dump of a stack's database, and a stack that begins again from one.

PostgreSQL is the truth and all that has to be kept, beside `secret.key` and `admin.key` in the data
folder: what is in Redis is made from it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psycopg
import redis

from service.store.migrate import skip_numbers
from workers.embedded.child import ENVIRONMENT
from workers.embedded.folders import unprivileged_user
from workers.embedded.postgres import socket_folder_in
from workers.embedded.program import find_postgres
from workers.stack.errors import StackFailed
from workers.stack.lock import DataLock, find_owner
from workers.stack.options import StackOptions
from workers.stack.parts import Parts
from workers.stack.places import require_own

#: The stack's database; the next one is made beside it.
_DATABASE, _NEXT, _LAST = "postgres", "muster_restored", "muster_replaced"


def write_backup(options: StackOptions, file: Path) -> None:
    """Dump the database of the stack on `options.data` to `file`, all of one instant. The stack may run
    or not. Raises StackFailed; then `file` is as it was."""
    _require_stack(options)
    if find_owner(options.records) is not None:
        return _dump(options, file)
    lock, parts = _lock(options), Parts(options)
    try:
        parts.postgres.end_leftover()
        parts.postgres.start()
        _dump(options, file)
    finally:
        parts.postgres.stop()
        lock.release()


def restore_backup(options: StackOptions, file: Path) -> None:
    """Let the stack on `options.data`, which must not run, begin again from a dump. Raises AlreadyRunning
    or StackFailed; then the database is as it was.

    Members that run are left alone: the next `muster up` adopts those that the dump knows as they are,
    and ends the others (T1).
    """
    _require_stack(options)
    if not file.is_file():
        raise StackFailed(f"there is no file {file}")
    lock, parts = _lock(options), Parts(options)
    try:
        for stage in parts.stop_order:
            for part in stage:
                part.end_leftover()
        for server in parts.servers:
            server.start()
        # 1. The dump beside what is there.
        _make_next(options, file)
        # 2. Nothing is called what something was called that the dump does not know.
        skip_numbers(_url(parts.postgres.url, _NEXT))
        # 3. In its place, at once; the ledger and all that is published is made anew from it.
        _switch(options)
        with redis.Redis.from_url(parts.valkey.url) as client:
            client.flushall()
    except psycopg.Error as error:
        raise StackFailed(f"PostgreSQL refused: {error}") from error
    finally:
        for server in parts.servers:
            server.stop()
        lock.release()


def _require_stack(options: StackOptions) -> None:
    if not (options.data / "postgres" / "cluster").is_dir():
        raise StackFailed(f"{options.data} is not the data folder of a stack; `muster up` makes one")
    require_own(options.data)


def _lock(options: StackOptions) -> DataLock:
    lock = DataLock(options.data, options.records)
    lock.take()
    return lock


def _dump(options: StackOptions, file: Path) -> None:
    draft = file.with_name(f"{file.name}.new")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output:
            _run(options, ["pg_dump", "--format=custom", "--no-owner", _DATABASE], stdout=output.fileno())
            os.fsync(output.fileno())
        draft.replace(file)
    except OSError as error:
        raise StackFailed(f"{file} cannot be written: {error}") from error
    finally:
        draft.unlink(missing_ok=True)


def _make_next(options: StackOptions, file: Path) -> None:
    with _admin(options) as conn:
        for name in (_NEXT, _LAST):
            conn.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        conn.execute(f"CREATE DATABASE {_NEXT} TEMPLATE template0")
    with file.open("rb") as dump:
        _run(options, ["pg_restore", "--exit-on-error", "--no-owner", "-d", _NEXT], stdin=dump.fileno())


def _switch(options: StackOptions) -> None:
    with _admin(options) as conn:
        with conn.transaction():
            conn.execute(f"ALTER DATABASE {_DATABASE} RENAME TO {_LAST}")
            conn.execute(f"ALTER DATABASE {_NEXT} RENAME TO {_DATABASE}")
        conn.execute(f"DROP DATABASE {_LAST} WITH (FORCE)")


def _admin(options: StackOptions) -> psycopg.Connection:
    folder = str(socket_folder_in(options.sockets))
    return psycopg.connect(host=folder, user="muster", dbname="template1", autocommit=True)


def _run(
    options: StackOptions,
    command: Sequence[str],
    *,
    stdin: int = subprocess.DEVNULL,
    stdout: int | None = None,
) -> None:
    programs = find_postgres(options.data / "postgres", unprivileged_user())
    program, *arguments = command
    done = subprocess.run(
        [programs / program, "-h", socket_folder_in(options.sockets), "-U", "muster", *arguments],
        cwd="/",
        env=dict(ENVIRONMENT),
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise StackFailed(f"{program} failed: {done.stderr.strip()}")


def _url(url: str, database: str) -> str:
    return url.replace(f"/{_DATABASE}?", f"/{database}?", 1)
