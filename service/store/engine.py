"""Engines: pooled connections to PostgreSQL with the limits that each kind of process wants."""

from __future__ import annotations

from sqlalchemy import Engine, create_engine
from sqlalchemy.pool import NullPool

from service.store.bounded import bound_waiting, ping_before_use
from service.store.pulse import Pulse, heed

#: A server that is alive ends a statement itself; after that and some seconds more, it is not.
_ANSWER_SECONDS, _DIRECT_ANSWER_SECONDS = 35.0, 125.0

#: Idle transactions and lock waits are bounded, so that a frozen process cannot stop the others
#: for ever. The leader's own connection has looser bounds; its lease bounds it (L1, L3).
_SESSION = {
    "statement_timeout": "30s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
    "timezone": "UTC",
}


def make_engine(
    url: str, *, pool_size: int = 5, application_name: str = "muster", pulse: Pulse | None = None
) -> Engine:
    """A pool of at most `pool_size` connections that are checked before use.

    `url` names the driver: postgresql+psycopg://. Raises sqlalchemy's OperationalError on use when
    the server is away or does not answer; waiting for a connection is bounded by five seconds.
    With a `pulse` nothing waits for a server that it found silent.
    """
    options = " ".join(f"-c {name}={value}" for name, value in _SESSION.items())
    engine = create_engine(
        url,
        hide_parameters=True,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=5,
        connect_args={"connect_timeout": 3, "options": options, "application_name": application_name},
    )
    if pulse is not None:
        heed(engine, pulse)
    bound_waiting(engine, answer_seconds=_ANSWER_SECONDS)
    ping_before_use(engine)
    return engine


#: A leader is bounded by its lease and ended by its successor (L1, L3); these bounds only keep a
#: forgotten one from holding locks for ever. Its statements read and write rows by key: with
#: sequential scans off, a plan made while a table was small is still right when it is large.
_DIRECT_SESSION = {
    "statement_timeout": "120s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "300s",
    "timezone": "UTC",
    "enable_seqscan": "off",
}


#: A plan that is kept has to be right for tables of any size and for any number of rows, so it finds rows
#: by key, one by one: while a table is small, to read all of it looks as cheap.
_PLANS_ONCE = {"plan_cache_mode": "force_generic_plan", "enable_hashjoin": "off", "enable_mergejoin": "off"}


def make_direct_engine(
    url: str, *, application_name: str = "muster leader", plans_once: bool = False
) -> Engine:
    """Connections that are opened when asked for and closed when given back, never pooled.

    What is true of one connection (a lease's backend, a kept snapshot) must not silently move to
    another (L1, W3). Statements are planned anew each time, with their values; or each once for the
    connection's life if it `plans_once`.
    """
    session = {**_DIRECT_SESSION, **(_PLANS_ONCE if plans_once else {})}
    options = " ".join(f"-c {name}={value}" for name, value in session.items())
    engine = create_engine(
        url,
        hide_parameters=True,
        poolclass=NullPool,
        connect_args={
            "connect_timeout": 3,
            "options": options,
            "application_name": application_name,
            "prepare_threshold": 0 if plans_once else None,
        },
    )
    bound_waiting(engine, answer_seconds=_DIRECT_ANSWER_SECONDS)
    return engine
