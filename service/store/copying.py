"""Adding rows: COPY for many, one INSERT for a few (never executemany)."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql
from sqlalchemy import Connection

from service.points import reach
from service.store.driver import driver_of

#: COPY takes three round trips, an INSERT takes one; with more rows its text would only grow.
_FEW = 8
#: The absent value in lines of COPY.
NULL = r"\N"
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def copy_rows(
    conn: Connection, table: str, *, columns: Sequence[str], rows: Iterable[Sequence[object]]
) -> None:
    """Add `rows` to `table` within the connection's open transaction. JSON values are given as
    psycopg's `Jsonb`. Raises sqlalchemy-free psycopg errors, such as UniqueViolation."""
    driver = driver_of(conn)
    given = list(rows)
    if not given:
        return
    if len(given) <= _FEW:
        # A raw cursor, because others would search the text for placeholders each time.
        with psycopg.RawCursor(driver) as raw:
            raw.execute(
                _insert(table, tuple(columns), rows=len(given)), [value for row in given for value in row]
            )
        return
    with driver.cursor() as cursor, cursor.copy(_copy(table, tuple(columns))) as copy:
        for row in given:
            copy.write_row(row)
        reach("store.rows-copied")


@dataclass(frozen=True, slots=True)
class Lines:
    """Rows of one table in the text form of COPY: the values of a row `escaped` where they may hold
    anything, NULL where there is none, with a tab in between and a line feed at the end."""

    table: str
    columns: tuple[str, ...]
    lines: Iterable[str]


def copy_lines(conn: Connection, tables: Sequence[Lines]) -> None:
    """Add rows to each table in turn. For many rows that are alike this takes a fraction of the time of
    adapting each value."""
    driver = driver_of(conn)
    texts = ("".join(table.lines) for table in tables)
    text = next(texts, "")
    for table in tables:
        with driver.cursor() as cursor, cursor.copy(_copy(table.table, table.columns)) as copy:
            copy.write(text)
            # The next lines are put together while PostgreSQL is busy with these.
            text = next(texts, "")
            reach("store.lines-copied")


def escaped(text: str) -> str:
    """Any text, so that a line of COPY can hold it."""
    return text.translate(_ESCAPES)


def escaped_json(document: bytes) -> str:
    """JSON on one line, which has its control characters escaped, so that a line of COPY can hold it."""
    return document.replace(b"\\", rb"\\").decode()


@functools.lru_cache(maxsize=256)
def _insert(table: str, columns: tuple[str, ...], *, rows: int) -> bytes:
    """With PostgreSQL's own placeholders."""
    width = len(columns)
    values = ", ".join(
        f"({', '.join(f'${number}' for number in range(row * width + 1, (row + 1) * width + 1))})"
        for row in range(rows)
    )
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    return sql.SQL("INSERT INTO {} ({}) VALUES").format(sql.Identifier(table), names).as_bytes() + (
        f" {values}".encode()
    )


@functools.lru_cache(maxsize=64)
def _copy(table: str, columns: tuple[str, ...]) -> bytes:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    return sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), names).as_bytes()
