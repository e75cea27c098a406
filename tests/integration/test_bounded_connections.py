"""A PostgreSQL that accepts everything and answers nothing is not waited for without end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import OperationalError

from service.store.bounded import bound_waiting
from service.store.engine import make_direct_engine, make_engine


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def backend_of(conn: Connection) -> int:
    pid = conn.execute(text("SELECT pg_backend_pid()")).scalar_one()
    assert isinstance(pid, int)
    return pid


def test_an_answer_that_does_not_come_ends_the_connection(database_url: str) -> None:
    engine = create_engine(database_url)
    bound_waiting(engine, answer_seconds=0.3)
    with engine.connect() as conn:
        assert backend_of(conn)
        began = time.monotonic()
        with pytest.raises(OperationalError, match="has not answered"):
            conn.execute(text("SELECT pg_sleep(20)"))
        assert time.monotonic() - began < 5
        assert conn.invalidated
    with engine.connect() as conn:
        assert backend_of(conn)
    engine.dispose()


def test_a_pooled_connection_that_does_not_answer_is_replaced_and_so_are_all_others(
    database_url: str,
) -> None:
    engine = make_engine(database_url, pool_size=2)
    with engine.connect() as first, engine.connect() as second:
        before = [backend_of(first), backend_of(second)]
    time.sleep(1.1)  # who has served within a second is not asked
    with frozen(before[0]), frozen(before[1]), engine.connect() as one, engine.connect() as other:
        assert {backend_of(one), backend_of(other)}.isdisjoint(before)
    engine.dispose()


def test_a_sound_connection_is_kept_and_is_in_no_transaction(database_url: str) -> None:
    engine = make_engine(database_url, pool_size=1)
    with engine.connect() as conn:
        pid = backend_of(conn)
    for _ in range(8):
        with engine.connect() as conn:
            driver = conn.connection.driver_connection
            assert isinstance(driver, psycopg.Connection)
            assert driver.info.transaction_status is psycopg.pq.TransactionStatus.IDLE
            assert not driver.autocommit
            assert backend_of(conn) == pid
    engine.dispose()


def test_a_leaders_connection_is_bounded_too(database_url: str) -> None:
    engine = make_direct_engine(database_url)
    with engine.connect() as conn:
        assert getattr(conn.connection.driver_connection, "answer_seconds", None) == 125
    engine.dispose()
