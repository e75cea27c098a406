"""The fixtures give what they promise: a fresh database and an empty inventory for each test."""

from __future__ import annotations

import pytest
import redis
from sqlalchemy import create_engine, text


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
