"""Fixtures that all tests share."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from sqlalchemy import Engine

from service.store.engine import make_engine
from tests import servers
from tests.servers import Databases
from workers.embedded.valkey import ValkeyServer

settings.register_profile("here", deadline=None)
# A failure in CI has to be the same failure when it is run again.
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--scenarios", metavar="DIR", help="run the scenario files of DIR instead of our own")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """All modules and thousands of tests stay till the end. To look through them for garbage, again and
    again, took a third of the time of tests that make an application."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session")
def run_folder() -> Iterator[Path]:
    """The folder of this test process's own servers."""
    with servers.server_folder() as folder:
        yield folder


@pytest.fixture
def server_folder() -> Iterator[Path]:
    """A short folder for servers that one test starts itself; what it leaves running is ended.

    `tmp_path` will not do: it is too deep for sockets and, as root, closed to PostgreSQL's user.
    """
    with servers.server_folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def databases(run_folder: Path) -> Iterator[Databases]:
    """The PostgreSQL of this test process."""
    with servers.databases(run_folder) as made:
        yield made


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """A fresh database with the newest schema (SQLAlchemy URL)."""
    with databases.migrated() as url:
        yield url


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """Of the fresh database."""
    engine = make_engine(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def empty_database_url(databases: Databases) -> Iterator[str]:
    """A fresh database without tables (SQLAlchemy URL)."""
    with databases.empty() as url:
        yield url


@pytest.fixture(scope="session")
def inventory_server(run_folder: Path) -> Iterator[ValkeyServer]:
    """The Valkey of this test process, or the Redis that MUSTER_TEST_REDIS names."""
    with servers.inventory_server(run_folder) as server:
        yield server


@pytest.fixture
def redis_url(inventory_server: ValkeyServer) -> str:
    """An empty Redis-compatible server (URL for redis.Redis.from_url)."""
    servers.empty_inventory(inventory_server)
    return inventory_server.url
