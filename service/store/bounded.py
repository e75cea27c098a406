"""Connections that do not wait for ever for a PostgreSQL that has stopped answering.

A server that is frozen, or behind a network that swallows everything, runs none of its own timeouts and
never closes a connection. Whoever waits for it would wait as long as it does.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.waiting import READY_NONE
from sqlalchemy import Engine, event
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry

T = TypeVar("T")

#: A pooled connection that has rested has to show that it works before it is used. One that served a
#: moment ago would as likely break in the middle of a statement, and each check is a round trip.
_PING_SECONDS = 2.0
_REST_SECONDS = 1.0
#: How often a wait looks whether the process was told to stop.
_INTERVAL_SECONDS = 0.1


class NoAnswer(psycopg.OperationalError):
    """PostgreSQL said nothing. It is not known whether the statement was carried out (L4)."""


def _never() -> bool:
    return False


class BoundedConnection(psycopg.Connection[Any]):
    """Raises NoAnswer, and is closed, when one statement is not answered in `answer_seconds`, and as soon
    as the server is given up."""

    answer_seconds: float | None = None
    #: Asked a few times a second while there is nothing to read.
    is_given_up: Callable[[], bool] = staticmethod(_never)

    def wait(self, gen: PQGen[T], interval: float = _INTERVAL_SECONDS, timeout: float | None = None) -> T:
        """psycopg waits here for every answer."""
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(self._unless_given_up(gen), interval, self.answer_seconds)
        except psycopg.errors._WaitTimeout:
            self.close()
            raise NoAnswer(f"PostgreSQL has not answered for {self.answer_seconds:g} s") from None

    def _unless_given_up(self, gen: PQGen[T]) -> PQGen[T]:
        try:
            state = next(gen)
            while True:
                ready = yield state
                if ready == READY_NONE and self.is_given_up():
                    self.close()
                    raise NoAnswer("PostgreSQL does not answer")
                state = gen.send(ready)
        except StopIteration as end:
            answer: T = end.value
            return answer

    def ping(self, *, seconds: float) -> None:
        """Ask for a sign of life outside of any transaction. Raises psycopg's OperationalError."""
        usual, self.answer_seconds = self.answer_seconds, seconds
        self.autocommit = True
        self.execute("", prepare=False)
        self.autocommit = False
        self.answer_seconds = usual


def bound_waiting(engine: Engine, *, answer_seconds: float) -> None:
    """Have every connection of `engine` wait at most so long for one answer."""

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: object, _record: object, _arguments: object, options: dict[str, Any]) -> object:
        connection = BoundedConnection.connect(**options)
        connection.answer_seconds = answer_seconds
        return connection


def ping_before_use(engine: Engine) -> None:
    """Have the pool of an engine with bounded connections hand out those that have rested only if they
    answer at once. If one does not, none of the others is trusted either."""

    @event.listens_for(engine, "checkin")
    def rest(_connection: BoundedConnection | None, record: ConnectionPoolEntry) -> None:
        record.info["rests_since"] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def ping(connection: BoundedConnection, record: ConnectionPoolEntry, _proxy: object) -> None:
        if time.monotonic() - record.info.get("rests_since", math.inf) < _REST_SECONDS:
            return
        try:
            connection.ping(seconds=_PING_SECONDS)
        except psycopg.OperationalError as error:
            raise InvalidatePoolError(str(error)) from error
