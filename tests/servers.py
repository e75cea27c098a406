"""The servers of a test run: one PostgreSQL and one Valkey for each test process, on unix sockets only."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
import redis
from psycopg import sql

from workers.embedded import postgres, valkey
from workers.embedded.postgres import PostgresServer
from workers.embedded.valkey import ValkeyServer

_TEMPLATE = "muster_template"


@contextmanager
def server_folder() -> Iterator[Path]:
    """A short folder that a server's user can enter, also if that is `nobody`.

    Servers that a test leaves in it are ended, even if the test process is killed: a watcher waits for
    the end of a pipe that only this process holds.
    """
    folder = Path(tempfile.mkdtemp(prefix="muster-test-", dir="/tmp"))
    folder.chmod(0o711)
    watcher = subprocess.Popen(
        [sys.executable, "-m", "tests.watcher", folder],
        cwd=Path(__file__).parent.parent,
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    assert watcher.stdin is not None
    try:
        yield folder
    finally:
        watcher.stdin.close()
        watcher.wait()
        shutil.rmtree(folder, ignore_errors=True)


class Databases:
    """Makes databases on one cluster: empty ones, and copies of a migrated template."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self._numbers = itertools.count(1)
        self._has_template = False
        self._admin = psycopg.connect(
            host=str(server.socket_folder), user="muster", dbname="postgres", autocommit=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._admin.close()

    @contextmanager
    def migrated(self) -> Iterator[str]:
        """The URL of a fresh database with the newest schema."""
        if not self._has_template:
            self._make_template()
            self._has_template = True
        with self._database(_TEMPLATE) as url:
            yield url

    @contextmanager
    def empty(self) -> Iterator[str]:
        """The URL of a fresh database without any table."""
        with self._database("template0") as url:
            yield url

    def _make_template(self) -> None:
        from service.store.migrate import upgrade

        self._execute("CREATE DATABASE {} TEMPLATE template0", _TEMPLATE)
        upgrade(self.server.url_of(_TEMPLATE))

    @contextmanager
    def _database(self, template: str) -> Iterator[str]:
        name = f"test_{next(self._numbers)}"
        self._execute("CREATE DATABASE {} TEMPLATE {} STRATEGY = FILE_COPY", name, template)
        try:
            yield self.server.url_of(name)
        finally:
            self._execute("DROP DATABASE {} WITH (FORCE)", name)

    def _execute(self, statement: str, *names: str) -> None:
        self._admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


@contextmanager
def databases(folder: Path) -> Iterator[Databases]:
    """Start a PostgreSQL in `folder` that need not survive anything."""
    options = postgres.UNSAFE_FAST_OPTIONS
    with (
        PostgresServer.start(folder / "postgres", socket_dir=folder / "sockets", options=options) as server,
        Databases(server) as made,
    ):
        yield made


@contextmanager
def inventory_server(folder: Path) -> Iterator[ValkeyServer]:
    """Start a Valkey in `folder`, or the Redis that MUSTER_TEST_REDIS names."""
    named = os.environ.get("MUSTER_TEST_REDIS")
    with ValkeyServer.start(
        folder / "valkey",
        socket_dir=folder / "sockets",
        options=valkey.UNSAFE_FAST_OPTIONS,
        program=Path(named) if named else None,
    ) as server:
        yield server


def empty_inventory(server: ValkeyServer) -> None:
    """Drop everything that an earlier test has left in the server, its scripts too."""
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
        client.script_flush()
