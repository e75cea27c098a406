"""What /metrics reads of the store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event

from service.domain.events import Event, Kind
from service.domain.unit import unit_id
from service.store.engine import make_engine
from service.store.events import add_events
from service.store.measure_rows import read_release_seconds

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@pytest.fixture
def conn(database_url: str) -> Iterator[Connection]:
    engine: Engine = make_engine(database_url)
    with engine.connect() as conn:
        yield conn
    engine.dispose()


def note(conn: Connection, member: int, *told: tuple[float, Kind], attempt: int = 1) -> None:
    """Events of one member of group 7, at these seconds."""
    add_events(
        conn,
        (
            Event(at=at(seconds), kind=kind, group_id=7, unit_id=unit_id(7, member), attempt=attempt)
            for seconds, kind in told
        ),
    )


def test_a_release_counts_from_its_eviction_or_from_the_end_of_its_last_member(conn: Connection) -> None:
    note(conn, 0, (1, Kind.MEMBER_ENDED), (5, Kind.MEMBER_ENDED), (7, Kind.SUCCEEDED))
    note(conn, 1, (2, Kind.EVICTING), (30, Kind.MEMBER_ENDED), (31, Kind.REQUEUED))
    note(conn, 1, (40, Kind.MEMBER_ENDED), (40.5, Kind.FAILED), attempt=2)
    # It held nothing: nothing was decided about its places.
    note(conn, 2, (50, Kind.CANCELLED))
    assert sorted(read_release_seconds(conn, since=at(-1))) == [0.5, 2, 29]
    # The decision may be older than what is asked for.
    assert sorted(read_release_seconds(conn, since=at(20))) == [0.5, 29]


def test_reading_releases_costs_what_there_is_to_read(conn: Connection) -> None:
    """Not the square of a group's members."""
    members = 1_500
    for member in range(members):
        note(conn, member, (1, Kind.MEMBER_ENDED), (2, Kind.SUCCEEDED))
    asked: list[tuple[str, Any]] = []

    def remember(_conn: object, _cursor: object, statement: str, parameters: Any, *_more: object) -> None:
        asked.append((statement, parameters))

    event.listen(conn, "before_cursor_execute", remember)
    assert len(read_release_seconds(conn, since=at(0))) == members
    event.remove(conn, "before_cursor_execute", remember)
    [(statement, parameters)] = asked
    explain = "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) "
    [plan] = conn.exec_driver_sql(explain + statement, parameters).scalar_one()
    assert rows_touched(plan["Plan"]) < 20 * 2 * members


def rows_touched(plan: dict[str, Any]) -> float:
    own: float = plan["Actual Loops"] * (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0))
    return own + sum(rows_touched(each) for each in plan.get("Plans", ()))
