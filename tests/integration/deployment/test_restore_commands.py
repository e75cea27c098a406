"""The commands for compose that the operations page gives, run in their order against local servers: what
`docker compose exec` would run in a container runs here, with the place of the server added."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis

from service.store.engine import make_engine
from service.store.migrate import upgrade
from tests import servers
from tests.integration.dispatch.site import START
from tests.integration.retention.history import submit
from workers.embedded import postgres, program
from workers.embedded.folders import unprivileged_user
from workers.embedded.postgres import PostgresServer
from workers.embedded.valkey import ValkeyServer

PAGE = Path(__file__).parents[3] / "docs" / "operations.md"
SERVICES = {"api", "worker", "dispatcher", "ticker"}


def commands() -> list[str]:
    """Of the block below `Compose:`."""
    block = PAGE.read_text().split("\nCompose:\n", 1)[1].split("```sh\n", 1)[1].split("```", 1)[0]
    return [line for line in block.splitlines() if line]


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """With the role and the database of `docker-compose.yml`."""
    with (
        servers.server_folder() as folder,
        PostgresServer.start(
            folder / "postgres", socket_dir=folder / "sockets", options=postgres.UNSAFE_FAST_OPTIONS
        ) as started,
    ):
        with psycopg.connect(host=str(started.socket_folder), user="muster", dbname="postgres") as conn:
            conn.autocommit = True
            conn.execute("CREATE DATABASE muster")
        yield started


class Compose:
    """What a line of the page does, without containers."""

    def __init__(self, server: PostgresServer, valkey: ValkeyServer, folder: Path) -> None:
        self._programs = program.find_postgres(server.data_dir, unprivileged_user())
        self._server, self._valkey, self._folder = server, valkey, folder
        self.url = server.url_of("muster")

    def run(self, line: str) -> None:
        """Fail for a line that this does not know."""
        line, _, output = line.partition(" > ")
        line, _, source = line.partition(" < ")
        match shlex.split(line):
            case ["docker", "compose", "exec", "-T", "postgres", name, *arguments]:
                self._postgres([name, *arguments], output, source)
            case ["docker", "compose", "exec", "-T", "redis", "redis-cli", "FLUSHALL"]:
                with redis.Redis.from_url(self._valkey.url) as client:
                    client.flushall()
            case ["docker", "compose", "run", "--rm", "migrate", *arguments]:
                subprocess.run(
                    [sys.executable, "-P", "-m", "service.cli", *arguments],
                    check=True,
                    env={**os.environ, "MUSTER_DATABASE_URL": self.url},
                )
            case ["docker", "compose", "stop", *services]:
                assert set(services) == SERVICES
            case ["docker", "compose", "up", "--wait"] | ["cp", ".env", _]:
                pass
            case _:
                raise AssertionError(f"what does this do? {line}")

    def _postgres(self, command: list[str], output: str, source: str) -> None:
        name, *arguments = command
        given = (self._folder / source).read_bytes() if source else b""
        done = subprocess.run(
            [self._programs / name, "-h", self._server.socket_folder, *arguments],
            input=given,
            stdout=subprocess.PIPE,
            check=True,
        )
        if output:
            (self._folder / output).write_bytes(done.stdout)


def test_a_restored_database_has_what_the_dump_had_and_numbers_go_on_behind(
    server: PostgresServer, inventory_server: ValkeyServer, tmp_path: Path
) -> None:
    servers.empty_inventory(inventory_server)
    compose = Compose(server, inventory_server, tmp_path)
    upgrade(compose.url)
    lines = commands()
    stop = next(i for i, line in enumerate(lines) if line.startswith("docker compose stop"))
    engine = make_engine(compose.url)
    try:
        before = submit(engine, START)
        for line in lines[:stop]:
            compose.run(line)
        lost = submit(engine, START)
        with redis.Redis.from_url(inventory_server.url) as client:
            client.set("muster:ledger", "old")
            engine.dispose()
            for line in lines[stop:]:
                compose.run(line)
            assert client.keys() == []
        with engine.connect() as conn:
            known = conn.exec_driver_sql("SELECT id FROM groups").scalars().all()
            last_event = conn.exec_driver_sql("SELECT max(id) FROM events").scalar_one()
        assert known == [before.groups[0].id]
        after = submit(engine, START)
        assert after.groups[0].id > lost.groups[0].id + 1_000_000
        with engine.connect() as conn:
            assert conn.exec_driver_sql("SELECT max(id) FROM events").scalar_one() > last_event + 1_000_000
    finally:
        engine.dispose()


def test_every_command_of_the_page_is_run() -> None:
    names = {match[1] for line in commands() if (match := re.search(r"-T postgres (\w+)", line))}
    assert names == {"pg_dump", "dropdb", "createdb", "pg_restore"}
