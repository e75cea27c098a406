"""A connection that is lost is told in one line; any other error keeps its traceback."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest
import redis
from psycopg import errors
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError

from service.outages import shorten_outage

_POOL = "sqlalchemy.pool.impl.NullPool"


@pytest.fixture
def said() -> Iterator[io.StringIO]:
    """What a handler writes that shortens outages."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
    handler.addFilter(shorten_outage)
    libraries = [logging.getLogger(name) for name in ("sqlalchemy", "rq")]
    for library in libraries:
        library.addHandler(handler)
    yield stream
    for library in libraries:
        library.removeHandler(handler)


def test_a_connection_that_was_ended_is_told_in_a_line(engine: Engine, said: io.StringIO) -> None:
    held = engine.raw_connection()
    with engine.connect() as other:
        pid = held.driver_connection.info.backend_pid  # type: ignore[union-attr]
        held.cursor().execute("SELECT 1")
        other.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})
    # Nobody has found out before the pool takes it back, in the middle of a transaction.
    held.close()
    (line,) = said.getvalue().splitlines()
    assert line.startswith("WARNING sqlalchemy.pool.impl.QueuePool connection lost: ")


@pytest.mark.parametrize(
    ("name", "error", "is_short"),
    [
        ("sqlalchemy.pool.impl.NullPool", errors.AdminShutdown("ended"), True),
        (
            "sqlalchemy.pool.impl.NullPool",
            OperationalError("SELECT 1", {}, errors.AdminShutdown("ended")),
            True,
        ),
        ("sqlalchemy.pool.impl.NullPool", errors.DiskFull("no room"), False),
        ("sqlalchemy.pool.impl.NullPool", errors.UndefinedTable("no table"), False),
        ("sqlalchemy.pool.impl.NullPool", RuntimeError("a bug"), False),
        ("rq.worker", redis.ConnectionError("refused"), True),
        ("rq.worker", redis.TimeoutError("too late"), True),
        ("rq.worker", redis.ResponseError("a bug"), False),
        ("sqlalchemy.engine", errors.AdminShutdown("ended"), False),
    ],
)
def test_only_what_is_known_is_short(said: io.StringIO, name: str, error: Exception, is_short: bool) -> None:
    try:
        raise error
    except type(error):
        logging.getLogger(name).exception("Exception during reset or similar")
    assert ("Traceback" not in said.getvalue()) == is_short
    assert ("connection lost" in said.getvalue()) == is_short
