"""What changed since a kept snapshot: the difference of two snapshots, never a position in a list.

A transaction that began early and committed late is in the difference like any other, and nobody
waits for it (W1). A kept snapshot is worth nothing over another connection (W3).
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, text

_NOW = "SELECT pg_current_snapshot()::text, version FROM config WHERE id = 1"
#: The events of transactions that the last snapshot did not see as ended. An ARRAY sub-select,
#: whose plan does not depend on what it is joined with.
_SINCE = """
SELECT pg_current_snapshot()::text, version, ARRAY(
  SELECT unit_id FROM events
  WHERE is_feed AND unit_id IS NOT NULL
    AND (xid >= CAST(:xmax AS xid8) OR xid = ANY(CAST(:xip AS xid8[])))
)
FROM config WHERE id = 1
"""


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


def read_changes(conn: Connection, since: Snapshot) -> Changed:
    """The units that events of transactions name which `since` did not see as ended (W1)."""
    values = {"xmax": since.xmax, "xip": "{" + ",".join(since.xip) + "}"}
    snapshot, version, unit_ids = conn.execute(text(_SINCE), values).one()
    return Changed(_parse(snapshot), version, frozenset(unit_ids))


def _parse(snapshot: str) -> Snapshot:
    _, xmax, xip = snapshot.split(":")
    return Snapshot(xmax, tuple(xip.split(",")) if xip else ())
