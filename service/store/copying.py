"""COPY into a table: the fastest way to add many rows (never executemany)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import psycopg
from psycopg import sql
from sqlalchemy import Connection


def copy_rows(conn: Connection, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Add `rows` to `table` within the connection's open transaction. JSON values are given as
    psycopg's `Jsonb`. Raises sqlalchemy-free psycopg errors, such as UniqueViolation."""
    # Also right for a detached connection, which has no record of the pool.
    driver = cast(psycopg.Connection, conn.connection.dbapi_connection)
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(table), sql.SQL(", ").join(sql.Identifier(column) for column in columns)
    )
    with driver.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)
