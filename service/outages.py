"""Outages of the stores in what libraries log: a line that says so, where they would print a traceback."""

from __future__ import annotations

import logging

import psycopg
import redis
from sqlalchemy.exc import DBAPIError

#: SQLAlchemy's pool of connections, and RQ's worker: whoever uses them says what an outage means.
_LIBRARIES = ("sqlalchemy.pool", "rq")
#: Beginnings of SQLSTATE: the connection failed, or the server ended it. What the driver finds has none.
_LOST = ("08", "57P")


def shorten_outage(record: logging.LogRecord) -> bool:
    """A filter of a handler, which lets everything pass. What these libraries say of a lost connection
    becomes one line. Any other error keeps its traceback."""
    error = record.exc_info[1] if record.exc_info else None
    is_theirs = any(record.name == each or record.name.startswith(f"{each}.") for each in _LIBRARIES)
    if is_theirs and (lost := _find_lost(error)) is not None:
        said = (_first_line(str(lost)), _first_line(record.getMessage()))
        record.msg = "connection lost: %s: %s (%s)"
        record.args = (type(lost).__name__, *said)
        record.exc_info = record.exc_text = None
        record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
    return True


def _find_lost(error: BaseException | None) -> Exception | None:
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, redis.AuthenticationError):
        return None
    if isinstance(cause, redis.ConnectionError | redis.TimeoutError):
        return cause
    if not isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError):
        return None
    state = cause.sqlstate
    return cause if state is None or state.startswith(_LOST) else None


def _first_line(words: str) -> str:
    return next(iter(words.splitlines()), "")
