"""The fixtures give what they promise: a fresh database and an empty inventory for each test."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest
import redis
from sqlalchemy import create_engine, text

from workers.embedded.program import find_valkey
from workers.embedded.valkey import ValkeyServer


@pytest.mark.parametrize("turn", [1, 2])
def test_a_database_is_fresh_each_time(database_url: str, turn: int) -> None:
    engine = create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE written_by_an_earlier_test (turn int)"))
    engine.dispose()


def test_a_database_has_the_schema(database_url: str) -> None:
    engine = create_engine(database_url)
    with engine.begin() as connection:
        assert connection.execute(text("SELECT to_regclass('alembic_version')")).scalar_one()
    engine.dispose()


def test_an_empty_database_has_no_table(empty_database_url: str) -> None:
    engine = create_engine(empty_database_url)
    with engine.begin() as connection:
        count = text("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace")
        assert connection.execute(count).scalar_one() == 0
    engine.dispose()


@pytest.mark.parametrize("turn", [1, 2])
def test_the_inventory_is_empty_each_time(redis_url: str, turn: int) -> None:
    with redis.Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0
        client.set("left", turn)


def test_the_inventory_runs_on_the_server_that_was_named(inventory_server: ValkeyServer) -> None:
    named = os.environ.get("MUSTER_TEST_REDIS") or find_valkey()
    assert Path(psutil.Process(inventory_server.pid).exe()) == Path(named).resolve()
