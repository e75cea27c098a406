"""Outages of PostgreSQL in what libraries log: a line that says so, where they would print a traceback."""

from __future__ import annotations

import logging

import psycopg
from sqlalchemy.exc import DBAPIError

_POOL = "sqlalchemy.pool"
#: Classes of SQLSTATE: the connection failed, and somebody ended it. What the driver itself finds has none.
_LOST = ("08", "57")


def shorten_outage(record: logging.LogRecord) -> bool:
    """A filter of a handler, which lets everything pass. What the connection pool says of a connection that
    is lost becomes one line: whoever used it says what that means. Any other error keeps its traceback."""
    error = record.exc_info[1] if record.exc_info else None
    if record.name.startswith(_POOL) and (lost := _find_lost(error)) is not None:
        lines = str(lost).splitlines()
        record.msg = "connection to PostgreSQL lost: %s: %s"
        record.args = (type(lost).__name__, lines[0] if lines else "")
        record.exc_info = record.exc_text = None
        record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
    return True


def _find_lost(error: BaseException | None) -> psycopg.Error | None:
    cause = error.orig if isinstance(error, DBAPIError) else error
    if not isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError):
        return None
    state = cause.sqlstate
    return cause if state is None or state.startswith(_LOST) else None
