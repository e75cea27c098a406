"""Does PostgreSQL say anything? Asked twice a second on a connection of its own.

Without it, each of many callers finds out alone, and one after the other, that a frozen or cut-off server
says nothing. With it they are told together, and a statement that is only slow is not taken for a lost one.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

import psycopg
import structlog
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from service.store.bounded import BoundedConnection, NoAnswer, bound_waiting

_BEAT_SECONDS = 0.5
#: So long a server may take to answer the shortest of questions.
_ANSWER_SECONDS = 2

_log = structlog.get_logger("muster.store")


class Pulse:
    """A thread that asks. `url` is an engine's."""

    def __init__(self, url: str) -> None:
        self._engine = create_engine(
            url,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            hide_parameters=True,
            connect_args={"connect_timeout": _ANSWER_SECONDS, "application_name": "muster-pulse"},
        )
        bound_waiting(self._engine, answer_seconds=_ANSWER_SECONDS)
        self._conn: Connection | None = None
        self._wake, self._news = threading.Event(), threading.Condition()
        self._asked_at = 0.0
        self._is_silent = self._is_ready = self._is_stopping = False
        self._thread: threading.Thread | None = None

    @property
    def is_silent(self) -> bool:
        """The last question was not answered. A server that refuses is not silent: it says so itself,
        and at once."""
        return self._is_silent

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Returns when the thread has ended, within a few seconds."""
        self._is_stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def is_ready(self, *, seconds: float) -> bool:
        """Put a question now: is it answered within `seconds`, and is the schema there?"""
        if self._is_silent:
            return False
        now = time.monotonic()
        self._wake.set()
        with self._news:
            return self._news.wait_for(lambda: self._asked_at >= now, seconds) and self._is_ready

    def _run(self) -> None:
        while not self._is_stopping:
            self._wake.clear()
            asked_at = time.monotonic()
            is_silent, is_ready = self._ask()
            if is_silent != self._is_silent:
                _log.warning("postgresql_silent" if is_silent else "postgresql_answers_again")
            with self._news:
                self._asked_at, self._is_silent, self._is_ready = asked_at, is_silent, is_ready
                self._news.notify_all()
            self._wake.wait(_BEAT_SECONDS)
        self._drop_connection()

    def _ask(self) -> tuple[bool, bool]:
        """Is it silent, is it ready."""
        was_connected = self._conn is not None
        try:
            if self._conn is None:
                self._conn = self._engine.connect()
            self._conn.execute(text("SELECT version FROM config"))
        except DBAPIError as error:
            self._drop_connection()
            is_silent = isinstance(error.orig, NoAnswer | psycopg.errors.ConnectionTimeout)
            # A connection that was kept may have ended with an earlier server.
            return self._ask() if was_connected and not is_silent else (is_silent, False)
        return False, True

    def _drop_connection(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            with contextlib.suppress(DBAPIError):
                conn.close()


def heed(engine: Engine, pulse: Pulse) -> None:
    """While the server is silent, have nothing of `engine`, an engine with bounded connections, wait for
    it: what waits is ended, what comes is refused, with OperationalError. To be called before
    bound_waiting: the first listener that connects is the last that is asked."""

    @event.listens_for(engine, "do_connect")
    def refuse(_dialect: object, _record: object, _arguments: object, options: dict[str, Any]) -> None:
        if pulse.is_silent:
            raise NoAnswer("PostgreSQL does not answer")
        options["connect_timeout"] = _ANSWER_SECONDS

    @event.listens_for(engine, "connect")
    def join(connection: BoundedConnection, _record: object) -> None:
        connection.is_given_up = lambda: pulse.is_silent
