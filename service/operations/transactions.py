"""One transaction for a verb, tried again when the database ended it for the sake of another."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import psycopg
from psycopg.errors import DeadlockDetected, LockNotAvailable, SerializationFailure
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

from service.domain.errors import StoreUnavailable
from service.points import reach

T = TypeVar("T")

_ATTEMPTS = 5


def in_transaction(engine: Engine, work: Callable[[Connection], T]) -> T:
    """Run `work` in a transaction and commit. Nothing of a deadlocked try has happened (W4), so it is
    made again, five times at most."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with engine.begin() as conn:
                result = work(conn)
                reach("api.change-written")
                return result
        except (OperationalError, psycopg.OperationalError) as error:
            # Statements that are sent together raise the driver's own.
            cause = error.orig if isinstance(error, OperationalError) else error
            if attempt == _ATTEMPTS or not isinstance(cause, DeadlockDetected | SerializationFailure):
                raise
    raise AssertionError("unreachable")


#: The server ended the transaction for something in it, before its commit.
_REFUSED = (
    DeadlockDetected,
    LockNotAvailable,
    SerializationFailure,
    psycopg.DataError,
    psycopg.IntegrityError,
)


def may_go_better_apart(error: Exception) -> bool:
    """Whether a transaction that failed so surely came to nothing, because of something in it. Never of a
    commit, or of a connection that broke, which may have been on one (L4)."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, _REFUSED):
        return True
    return not isinstance(cause, SQLAlchemyError | psycopg.Error | StoreUnavailable)
