"""Adding rows: COPY for many, one INSERT for a few (never executemany)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import psycopg
from psycopg import sql
from sqlalchemy import Connection

#: COPY takes three round trips, an INSERT takes one; with more rows its text would only grow.
_FEW = 8


def copy_rows(conn: Connection, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Add `rows` to `table` within the connection's open transaction. JSON values are given as
    psycopg's `Jsonb`. Raises sqlalchemy-free psycopg errors, such as UniqueViolation."""
    # Also right for a detached connection, which has no record of the pool.
    driver = cast("psycopg.Connection", conn.connection.dbapi_connection)
    names = sql.SQL(", ").join(sql.Identifier(column) for column in columns)
    given = list(rows)
    with driver.cursor() as cursor:
        if len(given) <= _FEW:
            if given:
                cursor.execute(_insert(table, names, given), [value for row in given for value in row])
            return
        with cursor.copy(sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), names)) as copy:
            for row in given:
                copy.write_row(row)


def _insert(table: str, names: sql.Composed, rows: Sequence[Sequence[object]]) -> sql.Composed:
    row = sql.SQL("({})").format(sql.SQL(", ").join(sql.Placeholder() * len(rows[0])))
    return sql.SQL("INSERT INTO {} ({}) VALUES {}").format(
        sql.Identifier(table), names, sql.SQL(", ").join([row] * len(rows))
    )
