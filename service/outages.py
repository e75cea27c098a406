"""Outages of the stores in what libraries log: a line that says so, where they would print a traceback."""

from __future__ import annotations

import logging

import psycopg
import redis
from sqlalchemy.exc import DBAPIError

#: SQLAlchemy's pool of connections, and RQ's worker: whoever uses them says what an outage means.
_LIBRARIES = ("sqlalchemy.pool", "rq")
#: Classes of SQLSTATE: the connection failed, and somebody ended it. What the driver itself finds has none.
_LOST = ("08", "57")


def shorten_outage(record: logging.LogRecord) -> bool:
    """A filter of a handler, which lets everything pass. What these libraries say of a lost connection
    becomes one line. Any other error keeps its traceback."""
    error = record.exc_info[1] if record.exc_info else None
    if record.name.startswith(_LIBRARIES) and (lost := _find_lost(error)) is not None:
        lines = str(lost).splitlines()
        said = record.getMessage().splitlines()[0]
        record.msg = "connection lost: %s: %s (%s)"
        record.args = (type(lost).__name__, lines[0] if lines else "", said)
        record.exc_info = record.exc_text = None
        record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
    return True


def _find_lost(error: BaseException | None) -> Exception | None:
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, redis.ConnectionError | redis.TimeoutError):
        return cause
    if not isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError):
        return None
    state = cause.sqlstate
    return cause if state is None or state.startswith(_LOST) else None
