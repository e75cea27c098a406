"""Runs migrations over one connection, one migrator at a time, with bounded locks."""

from __future__ import annotations

from alembic import context
from sqlalchemy import create_engine, pool, text
from sqlalchemy.dialects.postgresql.base import ischema_names

from service.store.models import TransactionId, metadata

#: Two migrators that start at once take turns on this advisory lock.
_LOCK = 0x6D757374

_LIMITS = ("SET lock_timeout = '5s'", "SET statement_timeout = '10min'", "SET timezone = 'UTC'")


#: Lets `alembic check` read the column back.
ischema_names["xid8"] = TransactionId


def run() -> None:
    engine = create_engine(context.config.attributes["database_url"], poolclass=pool.NullPool)
    with engine.connect() as connection:
        connection.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": _LOCK})
        for limit in _LIMITS:
            connection.execute(text(limit))
        connection.commit()
        try:
            context.configure(
                connection=connection,
                target_metadata=metadata,
                compare_server_default=True,
                transaction_per_migration=True,
            )
            with context.begin_transaction():
                context.run_migrations()
        finally:
            connection.rollback()
            connection.execute(text("SELECT pg_advisory_unlock(:lock)"), {"lock": _LOCK})
            connection.commit()


run()
