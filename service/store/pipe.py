"""Statements that are sent together and answered together, so that many cost one round trip.

They go to the driver as they are, with PostgreSQL's own placeholders; rows are given as JSON, so that a
statement is the same for any number of them and may be prepared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import psycopg
from sqlalchemy import Connection

from service.store.driver import driver_of

_JSON = msgspec.json.Encoder()


class Pipe:
    """What `run` gives can be read once the pipe is closed."""

    def __init__(self, driver: psycopg.Connection[Any]) -> None:
        self._driver = driver

    def run(self, statement: bytes, *values: object) -> psycopg.RawCursor[Any]:
        return psycopg.RawCursor(self._driver).execute(statement, values)


@contextmanager
def one_trip(conn: Connection) -> Iterator[Pipe]:
    """Statements of the connection's open transaction. Errors are psycopg's own, raised at the end."""
    driver = driver_of(conn)
    with driver.pipeline():
        yield Pipe(driver)


def run_alone(conn: Connection, statement: bytes, *values: object) -> psycopg.RawCursor[Any]:
    """One statement that is a transaction of its own, in one round trip; none may be open."""
    driver = driver_of(conn)
    driver.autocommit = True
    try:
        return psycopg.RawCursor(driver).execute(statement, values)
    finally:
        if not driver.closed:
            driver.autocommit = False


def compact(*parts: str) -> bytes:
    """A statement without the spaces that make it readable here."""
    return " ".join(word for part in parts for word in part.split()).encode()


def json_rows(rows: Iterable[object]) -> str:
    """For `json_to_recordset`."""
    return _JSON.encode(list(rows)).decode()
