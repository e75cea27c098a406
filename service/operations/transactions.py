"""One transaction for a verb, tried again when the database ended it for the sake of another."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from psycopg.errors import DeadlockDetected, SerializationFailure
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

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
        except OperationalError as error:
            if attempt == _ATTEMPTS or not isinstance(error.orig, DeadlockDetected | SerializationFailure):
                raise
    raise AssertionError("unreachable")
