"""What changed since a kept snapshot: the difference of two snapshots, never a position in a list.

A transaction that began early and committed late is in the difference like any other, and nobody
waits for it (W1). A kept snapshot is worth nothing over another connection (W3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from sqlalchemy import Connection, text

from service.store.begin import own_begin
from service.store.driver import driver_of
from service.store.past_use import Charges, charges_by_attempt, charges_statement
from service.store.unit_rows import Units, living_statement, pending_units, running_units, waiting_statement

Cursor = psycopg.Cursor[Any]
#: What changed, the present state of it, and what of it was charged.
Read = tuple["Changed", Units, Charges]

_NOW = "SELECT pg_current_snapshot()::text, version FROM config WHERE id = 1"
#: What events of transactions name that the last snapshot did not see as ended. An ARRAY sub-select,
#: whose plan does not depend on what it is joined with.
_CHANGED = """ARRAY(
  SELECT unit_id FROM events
  WHERE is_feed AND unit_id IS NOT NULL
    AND (xid >= %(xmax)s::xid8 OR xid = ANY(%(xip)s::xid8[]))
)"""
_SINCE = f"SELECT pg_current_snapshot()::text, version, {_CHANGED} FROM config WHERE id = 1"  # noqa: S608
_CHARGED = charges_statement(_CHANGED, "%(half_life)s::float8")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`xmax`: the first transaction that had not begun; `xip`: those under way below it."""

    xmax: str
    xip: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Changed:
    """What one reading found: the snapshot that it was made in, the configuration's version and
    the units that changed."""

    snapshot: Snapshot
    config_version: int
    unit_ids: frozenset[int]


def open_snapshot(conn: Connection) -> None:
    """Let everything that the open transaction reads be of one instant. Its first statement."""
    conn.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))


def read_position(conn: Connection) -> Changed:
    """Where a full load stands: nothing changed since."""
    snapshot, version = conn.execute(text(_NOW)).one()
    return Changed(_parse(snapshot), version, frozenset())


def read_changes(conn: Connection, since: Snapshot, *, half_life_seconds: float = 0.0) -> Read:
    """The units that events of transactions name which `since` did not see as ended (W1), their present
    state, and what their closed attempts count if anything does by this half-life: all of one instant, in
    a transaction of its own, in one round trip."""
    with own_begin(conn) as driver:
        with driver.pipeline():
            driver.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            answers = _ask(driver, since, half_life_seconds=half_life_seconds)
            driver.execute("COMMIT")
        return _told(answers)


def read_changes_within(conn: Connection, since: Snapshot, *, half_life_seconds: float = 0.0) -> Read:
    """As `read_changes`, as of the open snapshot."""
    driver = driver_of(conn)
    with driver.pipeline():
        answers = _ask(driver, since, half_life_seconds=half_life_seconds)
    return _told(answers)


def _ask(driver: psycopg.Connection, since: Snapshot, *, half_life_seconds: float) -> list[Cursor]:
    values: dict[str, Any] = {"xmax": since.xmax, "xip": "{" + ",".join(since.xip) + "}"}
    asked = [
        driver.execute(_SINCE, values),
        driver.cursor(binary=True).execute(waiting_statement(_CHANGED), values),
        driver.execute(living_statement(_CHANGED), values),
    ]
    if half_life_seconds > 0:
        asked.append(driver.execute(_CHARGED, {**values, "half_life": half_life_seconds}))
    return asked


def _told(answers: list[Cursor]) -> Read:
    changed, waiting, living, *charged = answers
    (found,) = changed.fetchall()
    snapshot, version, unit_ids = found
    units = pending_units(waiting.fetchall()), running_units(living.fetchall())
    charges = charges_by_attempt(charged[0].fetchall()) if charged else {}
    return Changed(_parse(snapshot), version, frozenset(unit_ids)), units, charges


def _parse(snapshot: str) -> Snapshot:
    _, xmax, xip = snapshot.split(":")
    return Snapshot(xmax, tuple(xip.split(",")) if xip else ())
